// The dashboard: what is selected, what is known of it, and when to draw.

import { describeCharts, drawCharts } from "./charts.js";
import { listen } from "./feed.js";
import { drawList, onListChange } from "./list.js";
import { drawChanges, drawHead, drawJudgements, drawStages, drawTiles } from "./panels.js";
import { conditionWords, count, duration, known, money, numberOr, rate, share, time } from "./words.js";

const DRAW_EVERY_MS = 900;
const scheme = matchMedia("(prefers-color-scheme: dark)");
const at = (id) => document.getElementById(id);
const state = {
  services: new Map(), selected: null, points: [], detail: null, pinned: null, range_s: null,
  staleAfter_s: 60, lastTick_s: null, decidedBy: null, skew_s: 0, link: "connecting", dirty: false, drawnAt: 0, scene: "",
};

const serverNow = () => Date.now() / 1000 + state.skew_s;
const ask = async (path) => {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
};
const pathOf = (name) => `/api/v1/services/${encodeURIComponent(name)}`;

function takeServices(list) {
  if (known(list.at_s)) {
    state.lastTick_s = list.at_s;
    state.skew_s = list.at_s + list.age_s - Date.now() / 1000;
  }
  state.staleAfter_s = list.stale_after_s;
  state.decidedBy = list.decided_by;
  if (list.complete) state.services = new Map();
  for (const summary of list.services) state.services.set(summary.service, summary);
  if (list.complete) route();
  const summary = state.services.get(state.selected);
  if (list.services.some((other) => other.service === state.selected)) {
    const last = state.points.at(-1);
    if (known(summary.latest.at_s) && (!last || summary.latest.at_s > last.at_s)) state.points.push(summary.latest);
    refreshDetail();
  }
  mark();
}

function markAges() {
  for (const summary of state.services.values()) {
    summary.age = known(summary.at_s) ? Math.max(0, serverNow() - summary.at_s) : summary.at_s;
    summary.isStale = known(summary.age) && summary.age > state.staleAfter_s;
  }
}

// One request at a time; what comes in meanwhile asks once more.
let detailAsked = false, detailBusy = false;
async function refreshDetail() {
  detailAsked = true;
  if (detailBusy) return;
  detailBusy = true;
  while (detailAsked) {
    detailAsked = false;
    const name = state.selected;
    try {
      const detail = await ask(pathOf(name));
      if (name === state.selected) state.detail = detail;
    } catch {
      break;  // the banner tells of a lost connection
    }
    mark();
    await new Promise((done) => setTimeout(done, DRAW_EVERY_MS));
  }
  detailBusy = false;
}

async function loadTimeline(name) {
  try {
    const timeline = await ask(`${pathOf(name)}/timeline`);
    if (name === state.selected) state.points = timeline.points;
  } catch {
    return;
  }
  mark();
}

function route() {
  const names = [...state.services.keys()].sort();
  const asked = decodeURIComponent(location.hash.replace(/^#\/?/, "").split("?")[0]);
  const chosen = state.services.has(asked) ? asked : names[0] ?? null;
  document.body.dataset.services = names.length === 0 ? "none" : names.length === 1 ? "one" : "many";
  document.body.dataset.view = state.services.has(asked) || names.length < 2 ? "detail" : "list";
  if (chosen === state.selected) return;
  Object.assign(state, { selected: chosen, points: [], detail: null, pinned: null });
  if (chosen) {
    loadTimeline(chosen);
    refreshDetail();
  }
  mark();
}

async function pin(at_s) {
  if (!known(at_s)) return;
  const name = state.selected;
  state.pinned = { at_s, decision: null, note: "Looking it up." };
  mark();
  let found = null, note = "No decision of that time is recorded.";
  try {
    found = (await ask(`${pathOf(name)}/decisions?until=${at_s + 0.001}&limit=1`)).decisions.at(-1) ?? null;
  } catch {
    note = "The recorded decisions can't be read now.";
  }
  if (name === state.selected && state.pinned?.at_s === at_s) state.pinned = { at_s, decision: found, note };
  mark();
}

function unpin() {
  state.pinned = null;
  mark();
}

function setRange(range_s) {
  state.range_s = range_s;
  mark();
}

// The shortest of the offered ranges that shows all there is, until somebody chooses.
function shownRange() {
  if (state.range_s) return state.range_s;
  const whole_s = state.points.length ? state.points.at(-1).at_s - state.points[0].at_s : 0;
  return whole_s <= 900 ? 900 : whole_s <= 3600 ? 3600 : 7200;
}

function mark() {
  if (state.dirty) return;
  state.dirty = true;
  const wait = Math.max(0, state.drawnAt + (document.hidden ? 10 : 1) * 150 - Date.now());
  setTimeout(() => requestAnimationFrame(draw), wait);
}

function draw() {
  state.dirty = false;
  state.drawnAt = Date.now();
  markAges();
  drawBar();
  drawList(state.services, state.selected);
  const summary = state.services.get(state.selected);
  at("detail").hidden = !summary;
  at("empty").hidden = Boolean(summary);
  at("empty").textContent = state.link === "live" ? "No service is configured." : "Waiting for the first figures.";
  document.title = summary ? `${summary.service}: ${conditionWords(summary.condition)}` : "GPU Autoscaler";
  if (summary) drawService(summary);
}

function drawService(summary) {
  const range_s = shownRange(), now = known(summary.at_s) ? Math.max(summary.at_s, serverNow()) : serverNow();
  const first = state.points[0]?.at_s ?? now;
  const since = Math.max(now - range_s, Math.min(first, now - 60));
  const view = { since, now, until: now + Math.min(numberOr(summary.lead_s, 0), (now - since) / 4) };
  const points = state.points.filter((point) => point.at_s >= since - 60);
  for (const button of at("ranges").children) button.setAttribute("aria-pressed", String(Number(button.dataset.range) === range_s));
  drawHead(summary, state.detail);
  drawTiles(summary, { replicaHours: replicaHours(points), span_s: now - since });
  const scene = [state.selected, points.length, points.at(-1)?.at_s, range_s, state.pinned?.at_s, scheme.matches, Boolean(window.Plotly), Math.floor(now / 5)].join();
  if (scene !== state.scene) {
    state.scene = scene;
    drawCharts({ points, share: summary.slo_share, view, longest_s: longestSilence(), pinned_s: state.pinned?.at_s, onPick: pin });
  }
  describeCharts(chartWords(summary));
  const decision = state.pinned ? state.pinned.decision : state.detail?.decision;
  drawJudgements(decision);
  drawStages(decision, { pinned: Boolean(state.pinned), note: state.pinned?.note ?? "Looking it up." });
  drawChanges(state.detail?.changes ?? [], pin);
}

// Thinned points lie further apart than ticks do, and are no silence for it.
function longestSilence() {
  const gaps = state.points.slice(1).map((point, index) => point.at_s - state.points[index].at_s).sort((a, b) => a - b);
  return Math.max(state.staleAfter_s, 3 * (gaps[gaps.length >> 1] ?? 0));
}

function replicaHours(points) {
  const longest_s = longestSilence();
  let seconds = 0;
  points.slice(1).forEach((point, index) => {
    const before = points[index];
    seconds += (before.ready + before.starting + before.draining) * Math.min(longest_s, point.at_s - before.at_s);
  });
  return seconds / 3600;
}

function chartWords(summary) {
  const point = summary.latest;
  const or = (value, words) => (known(value) ? words(value) : "unknown");
  return {
    demand: `Demand over time, now ${or(point.short_rps, rate)} requests per second, forecast ${or(point.forecast_rps, rate)}.`,
    replicas: `Replicas over time, now ${or(point.ready, count)} ready, ${or(point.starting, count)} starting, ${or(point.draining, count)} draining, ${or(point.desired, count)} desired.`,
    slo: `Share of requests in SLO over time, now ${or(point.attained, share)}.`,
    cost: `Cost per hour over time, now ${or(point.cost_per_hour, money)}.`,
  };
}

function drawBar() {
  const services = [...state.services.values()];
  const sum = (key) => services.reduce((total, summary) => total + numberOr(summary.latest[key], 0), 0);
  const holding = services.filter((summary) => summary.condition === "Holding" || summary.isStale).length;
  const unpriced = services.some((summary) => !known(summary.latest.cost_per_hour));
  const parts = services.length ? [
    `${count(services.length)} ${services.length === 1 ? "service" : "services"}`, `${count(sum("ready"))} of ${count(sum("desired"))} replicas ready`,
    unpriced ? "cost unknown for some" : `${money(sum("cost_per_hour"))} per hour`, holding ? `${count(holding)} held or out of date` : "",
  ] : [];
  at("fleet").replaceChildren(...parts.filter(Boolean).map((part) => Object.assign(document.createElement("span"), { textContent: part })));

  const age_s = known(state.lastTick_s) ? serverNow() - state.lastTick_s : null;
  const stopped = state.link === "live" && !state.decidedBy && age_s !== null && age_s > state.staleAfter_s;
  const link = at("link");
  link.dataset.state = stopped ? "stopped" : state.link;
  link.lastChild.textContent = state.link === "live" ? (age_s === null ? "Connected" : `Decided ${duration(age_s)} ago`) : state.link === "lost" ? "Not connected" : "Connecting";
  const banner = at("banner");
  const words = state.link === "lost"
    ? `The connection to the controller is lost${known(state.lastTick_s) ? `; these figures are from ${time(state.lastTick_s)}` : ""}. Trying again by itself.`
    : state.decidedBy ? `Replica ${state.decidedBy} of the controller decides and has the figures; this one answers HPA and KEDA. Look there.`
    : stopped ? `The controller has decided nothing since ${time(state.lastTick_s)}. These figures are out of date.` : "";
  banner.hidden = words === "";
  if (banner.textContent !== words) banner.textContent = words;
}

for (const button of at("ranges").children) button.addEventListener("click", () => setRange(Number(button.dataset.range)));
at("why-now").addEventListener("click", unpin);
onListChange(mark);
addEventListener("hashchange", route);
addEventListener("load", mark);
scheme.addEventListener("change", mark);
setInterval(mark, 1000);
listen({
  onServices: takeServices,
  onTime: (now_s) => {
    state.skew_s = now_s - Date.now() / 1000;
  },
  onLink: (link) => {
    if (link === "live" && state.link === "lost" && state.selected) loadTimeline(state.selected);
    state.link = link;
    mark();
  },
});
