// Numbers, times and reasons in words. An unknown value is never shown as a number.

const texts = await (await fetch("/static/words.json")).json();

export const known = (value) => typeof value === "number";
export const numberOr = (value, other) => (known(value) ? value : other);

const spell = (word) => word.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export const reasonWords = (reason) => texts.reasons[reason] ?? spell(reason);
export const unknownWords = (unknown) => texts.unknowns[unknown.reason] ?? spell(unknown.reason);
export const stageWords = (stage) => texts.stages[stage] ?? capital(stage);
export const judgementWords = (judgement) => texts.judgements[judgement] ?? spell(judgement);
export const conditionWords = (condition) => texts.conditions[condition] ?? spell(condition);

// "the sentence" from a detail, or the reason's own words as one.
export const sentence = (reason, detail) => {
  const text = detail || reasonWords(reason);
  return capital(text) + (/[.!?]$/.test(text) ? "" : ".");
};

const figures = (least, most) => new Intl.NumberFormat("en", { minimumFractionDigits: least, maximumFractionDigits: most });
const two = figures(2, 2), one = figures(1, 1), none = figures(0, 0), short = figures(0, 3);

export const rate = (value) => (Math.abs(value) < 10 ? two : Math.abs(value) < 100 ? one : none).format(value);
export const money = (value) => (value < 1000 ? two : none).format(value);
export const count = (value) => none.format(value);
export const plain = (value) => (known(value) ? (Math.abs(value) >= 1000 ? none : short).format(value) : String(value));
export const hours = (value) => (value < 10 ? two : one).format(value);

// Rounded down, so that a share below its target never looks like it.
export const share = (value) => {
  const percent = Math.floor(value * 10000 + 1e-6) / 100;
  return `${(percent === 100 ? none : two).format(percent)} %`;
};
export const target = (value) => `${figures(0, 3).format(value * 100)} %`;

export const duration = (seconds) => {
  const s = Math.max(0, Math.round(seconds));
  if (s < 90) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s % 60 && s < 600 ? ` ${s % 60} s` : ""}`;
  return `${Math.floor(s / 3600)} h${Math.floor((s % 3600) / 60) ? ` ${Math.floor((s % 3600) / 60)} min` : ""}`;
};
export const latency = (seconds) => (seconds < 1 ? `${short.format(seconds * 1000)} ms` : `${short.format(seconds)} s`);

// Whole minutes from the first on, for spans of which nobody needs the seconds.
export const minutes = (seconds) => duration(seconds < 60 ? seconds : Math.round(seconds / 60) * 60);

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
export const time = (at_s) => {
  const at = new Date(at_s * 1000);
  const today = day.format(at) === day.format(new Date());
  return today ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
};
// Plotly's axes know no zones: a moment as the viewer's wall clock shows it.
export const wall = (at_s) => {
  const at = new Date(at_s * 1000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, -1);
};

export const sloWords = (slo) => {
  if (slo.kind === "Unknown") return "SLO not known";
  const parts = [
    known(slo.ttft_s) && `first token within ${latency(slo.ttft_s)}`,
    known(slo.itl_s) && `${latency(slo.itl_s)} between tokens`,
    known(slo.queue_s) && `at most ${latency(slo.queue_s)} in the queue`,
    known(slo.e2e_s) && `answered within ${latency(slo.e2e_s)}`,
  ].filter(Boolean);
  return `SLO: ${target(slo.share)} of requests, ${parts.join(", ")}`;
};
