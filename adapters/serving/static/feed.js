// The live connection: tells of services, of the server's time, and of whether anything arrives at all.

const SILENT_AFTER_MS = 13000;  // heartbeats come every 5 s
const FIRST_WAIT_MS = 500, LONGEST_WAIT_MS = 10000;

export function listen({ onServices, onTime, onLink }) {
  let source = null, waitMs = FIRST_WAIT_MS, timer = 0, heardAt = 0;

  const heard = () => {
    heardAt = Date.now();
    waitMs = FIRST_WAIT_MS;
    onLink("live");
  };

  const again = () => {
    source?.close();
    source = null;
    clearTimeout(timer);
    onLink("lost");
    timer = setTimeout(open, waitMs);
    waitMs = Math.min(LONGEST_WAIT_MS, waitMs * 2);
  };

  async function open() {
    try {
      // An event stream can't tell why it is refused; a small file behind the same door can.
      const answer = await fetch("/static/icon.svg", { cache: "no-store", headers: { accept: "image/svg+xml" } });
      if (answer.status === 401) return location.reload();
      if (!answer.ok) return again();
    } catch {
      return again();
    }
    heardAt = Date.now();
    source = new EventSource("/api/v1/events");
    source.addEventListener("services", (event) => {
      heard();
      onServices(JSON.parse(event.data));
    });
    source.addEventListener("heartbeat", (event) => {
      heard();
      onTime(JSON.parse(event.data).now_s);
    });
    source.onerror = again;
  }

  setInterval(() => {
    if (source && Date.now() - heardAt > SILENT_AFTER_MS) again();
  }, 1000);
  addEventListener("online", () => {
    if (source) return;
    waitMs = FIRST_WAIT_MS;
    again();
  });
  open();
}
