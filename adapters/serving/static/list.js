// The list of services: searched, sorted, changed in place; of very many only the first rows are drawn.

import { conditionWords, count, duration, known, numberOr, rate, reasonWords, share } from "./words.js";

const MOST_ROWS = 200;
const list = document.getElementById("list");
const more = document.getElementById("more");
const search = document.getElementById("search");
const sort = document.getElementById("sort");
const rows = new Map();
const names = new Intl.Collator("en", { numeric: true });

export const address = (name) => `#/${encodeURIComponent(name)}`;

const latest = (summary, key) => numberOr(summary.latest[key], -Infinity);
const misses = (summary) => known(summary.latest.attained) && known(summary.slo_share) && summary.latest.attained < summary.slo_share;
const urgency = (summary) =>
  (summary.isStale ? 16 : 0) + (summary.condition === "Holding" ? 8 : 0) + (misses(summary) ? 4 : 0) +
  (summary.latest.failed > 0 ? 2 : 0) + (["Growing", "Shrinking"].includes(summary.condition) ? 1 : 0);

const orders = {
  attention: (a, b) => urgency(b) - urgency(a),
  name: () => 0,
  demand: (a, b) => latest(b, "short_rps") - latest(a, "short_rps"),
  replicas: (a, b) => latest(b, "desired") - latest(a, "desired"),
  attained: (a, b) => numberOr(a.latest.attained, 2) - numberOr(b.latest.attained, 2),
  cost: (a, b) => latest(b, "cost_per_hour") - latest(a, "cost_per_hour"),
};

export function drawList(services, selected) {
  const asked = search.value.trim().toLowerCase();
  const order = orders[sort.value];
  const found = [...services.values()].filter((summary) => summary.service.toLowerCase().includes(asked));
  found.sort((a, b) => order(a, b) || names.compare(a.service, b.service));
  const shown = found.slice(0, MOST_ROWS);
  const drawn = shown.map((summary) => drawRow(summary, summary.service === selected));
  if (drawn.length !== list.children.length || drawn.some((row, index) => list.children[index] !== row)) list.replaceChildren(...drawn);
  more.hidden = found.length > 0 && found.length === shown.length;
  more.textContent = found.length === 0 ? "No service of that name." : `${count(found.length - shown.length)} more: search to narrow.`;
}

function drawRow(summary, isSelected) {
  let row = rows.get(summary.service);
  if (!row) {
    row = document.createElement("li");
    row.innerHTML = '<a><i class="glyph"></i><b></b><span class="what"></span><span class="figure"></span><span class="flow"></span></a>';
    row.querySelector("a").href = address(summary.service);
    row.querySelector("b").textContent = summary.service;
    rows.set(summary.service, row);
  }
  const state = summary.isStale ? "Stale" : summary.condition;
  const point = summary.latest;
  const link = row.firstChild;
  link.toggleAttribute("aria-current", isSelected);
  if (isSelected) link.setAttribute("aria-current", "page");
  row.dataset.state = state;
  write(row, ".what", wordsFor(summary));
  write(row, ".figure", known(point.ready) ? `${point.ready} of ${point.desired}` : "");
  write(row, ".flow", known(point.short_rps) ? `${rate(point.short_rps)} req/s` : "demand unknown");
  return row;
}

function wordsFor(summary) {
  if (summary.isStale && known(summary.age)) return `no decision for ${duration(summary.age)}`;
  if (summary.condition === "Holding") return `holding: ${reasonWords(summary.reason)}`;
  if (misses(summary)) return `${share(summary.latest.attained)} in SLO`;
  if (summary.latest.failed > 0) return `${summary.latest.failed} failed`;
  return conditionWords(summary.condition);
}

function write(row, where, text) {
  const element = row.querySelector(where);
  if (element.textContent !== text) element.textContent = text;
}

export function onListChange(draw) {
  search.addEventListener("input", draw);
  sort.addEventListener("change", draw);
}
