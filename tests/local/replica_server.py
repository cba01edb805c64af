"""A replica for tests: an HTTP server that loads, serves, hangs, crashes and refuses to end as it is told."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """/health: 503 while loading; /slow/SECONDS; /crash; /environ/NAME; anything else 200."""

    loaded_at = 0.0

    def do_GET(self) -> None:
        _, verb, *rest = self.path.split("/")
        status, body = 200, "ok"
        if verb == "health" and time.monotonic() < self.loaded_at:
            status, body = 503, "loading"
        elif verb == "slow":
            time.sleep(float(rest[0]))
        elif verb == "crash":
            os._exit(3)
        elif verb == "environ":
            body = os.environ.get(rest[0], "")
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--load-s", type=float, default=0.0)
    parser.add_argument("--silent-s", type=float, default=0.0, help="before the port is opened")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--worker", action="store_true", help="start a child that ignores TERM, in our group")
    parser.add_argument("--stray", action="store_true", help="start a child in a session of its own")
    options = parser.parse_args()
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    sleeper = [sys.executable, "-S", "-c", "import signal,time;signal.signal(15,signal.SIG_IGN);time.sleep(600)"]
    if options.worker:
        subprocess.Popen(sleeper)
    if options.stray:
        subprocess.Popen(sleeper, start_new_session=True)
    time.sleep(options.silent_s)
    Handler.loaded_at = time.monotonic() + options.load_s
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    print("listening on", options.port, flush=True)
    server.daemon_threads = False  # an answer that was begun is finished before the process ends
    server.serve_forever()
    server.server_close()


if __name__ == "__main__":
    main()
