// One service in words and figures: the verdict, the tiles, the stages of a decision, the latest changes.

import * as words from "./words.js";
import { known } from "./words.js";

const at = (id) => document.getElementById(id);

export function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function put(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

export function drawHead(summary, detail) {
  put(at("name"), summary.service);
  const chip = at("condition");
  chip.dataset.state = summary.isStale ? "Stale" : summary.condition;
  put(chip, summary.isStale ? "out of date" : words.conditionWords(summary.condition));
  put(at("slo"), detail ? words.sloWords(detail.slo) : "");
  put(at("verdict"), verdict(summary));
  at("verdict").dataset.state = at("tiles").dataset.state = chip.dataset.state;
  put(at("announce"), `${summary.service}: ${chip.textContent}. ${lead(summary)}.`);
}

function lead(summary) {
  const desired = summary.latest.desired;
  if (!known(desired)) return "No decision has been made yet";
  const replicas = `${desired} ${desired === 1 ? "replica" : "replicas"}`;
  const held = summary.condition === "Holding";
  const start = summary.isStale ? (held ? "Last held at" : "Last asked for") : held ? "Held at" : "Asks for";
  return `${start} ${replicas}: ${words.reasonWords(summary.reason)}`;
}

function verdict(summary) {
  const more = known(summary.latest.desired) && summary.detail ? ` ${words.sentence(summary.reason, summary.detail)}` : "";
  return `${lead(summary)}.${more}`;
}

export function drawTiles(summary, shown) {
  const point = summary.latest;
  const tiles = at("tiles");
  const made = known(point.ready) ? tilesOf(summary, point, shown) : [];
  made.forEach((tile, index) => {
    let box = tiles.children[index];
    if (!box) {
      box = element("div");
      box.append(element("dt"), element("dd"), element("dd", "", { class: "sub" }));
      tiles.append(box);
    }
    box.dataset.tone = tile.tone ?? "";
    const [title, value, sub] = box.children;
    put(title, tile.title);
    if (value.dataset.text !== tile.value + (tile.unit ?? "")) {
      value.dataset.text = tile.value + (tile.unit ?? "");
      value.replaceChildren(tile.value, ...(tile.unit ? [element("small", tile.unit)] : []));
    }
    put(sub, tile.sub);
  });
  while (tiles.children.length > made.length) tiles.lastChild.remove();
}

// A tile for a value that may be unknown; the unknown says why.
function tile(title, value, shown, { unit, sub, tone } = {}) {
  if (known(value)) return { title, value: shown(value), unit, sub: sub ?? "", tone };
  return { title, value: "unknown", sub: value.detail || words.unknownWords(value), tone: "unknown" };
}

function tilesOf(summary, point, shown) {
  const capacity = known(point.capacity_rps)
    ? `${words.rate(point.ready * point.capacity_rps)} can be served in SLO`
    : `capacity unknown: ${words.unknownWords(point.capacity_rps)}`;
  const waiting = known(point.backlog) && point.backlog >= 1 ? `${words.count(point.backlog)} waiting, ` : "";
  const missed = known(point.attained) && known(summary.slo_share) && point.attained < summary.slo_share;
  const quantile = known(point.forecast_quantile) ? `${words.target(point.forecast_quantile)} quantile, median ${known(point.forecast_median_rps) ? words.rate(point.forecast_median_rps) : "unknown"}` : "";
  return [
    tile("Demand", point.short_rps, words.rate, { unit: " req/s", sub: waiting + capacity }),
    tile(known(summary.lead_s) ? `Forecast, in ${words.duration(summary.lead_s)}` : "Forecast", point.forecast_rps, words.rate, { unit: " req/s", sub: quantile }),
    { title: "Replicas ready", value: String(point.ready), unit: ` of ${point.desired}`, sub: fleetWords(point), tone: point.failed ? "bad" : "" },
    tile("Requests in SLO", point.attained, words.share, { sub: known(summary.slo_share) ? `target ${words.target(summary.slo_share)}, last minute` : "", tone: missed ? "bad" : "" }),
    tile("Cost", point.cost_per_hour, words.money, { unit: " per hour", sub: `${words.hours(shown.replicaHours)} replica-hours in ${words.minutes(shown.span_s)}` }),
  ];
}

function fleetWords(point) {
  const lacking = point.desired - point.ready - point.starting;
  const parts = [
    lacking > 0 && `${lacking} not started yet`, point.starting && `${point.starting} starting`,
    lacking < 0 && `${-lacking} more than asked for`, point.draining && `${point.draining} draining`, point.failed && `${point.failed} failed`,
  ].filter(Boolean);
  return parts.join(", ") || "all that are asked for";
}

export function drawStages(decision, { pinned, note }) {
  const body = at("stages");
  at("why-now").hidden = !pinned;
  if (!decision || decision.kind === "Unknown") {
    put(at("why-when"), "");
    const row = element("tr");
    row.append(element("td", note || decision?.detail || "", { colspan: "4" }));
    body.replaceChildren(row);
    put(at("ages"), "");
    return;
  }
  put(at("why-when"), `${pinned ? "as it was at" : "decided at"} ${words.time(decision.at_s)}`);
  const held = decision.outcome.kind === "Hold";
  const binding = decision.stages.findLastIndex((stage) => stage.reason === decision.binding);
  body.replaceChildren(...decision.stages.map((stage, index) => stageRow(stage, index === binding)), outcomeRow(decision, held));
  put(at("ages"), decision.ages.length ? `Age of the inputs: ${decision.ages.map(([name, age]) => `${name} ${words.plain(age)} s`).join(", ")}.` : "");
}

// What is thought of each replica with which anything is wrong, at that decision.
export function drawJudgements(decision) {
  const judged = decision?.demand?.judgements ?? [];
  at("unwell").hidden = judged.length === 0;
  at("judgements").replaceChildren(...judged.map(({ replica, judgement, detail }) => {
    const item = element("li");
    item.append(element("b", replica), element("span", words.judgementWords(judgement), { class: "state" }));
    if (detail) item.append(element("span", detail, { class: "detail-text" }));
    return item;
  }));
}

function stageRow(stage, binds) {
  const row = element("tr", "", binds ? { class: "binds" } : {});
  const reason = element("td"), inputs = element("td", "", { class: "inputs" });
  const title = element("span", words.reasonWords(stage.reason), { class: "reason" });
  if (binds) title.append(element("em", "binds"));
  reason.append(title);
  if (stage.detail) reason.append(element("span", stage.detail, { class: "detail-text" }));
  for (const [name, value] of stage.inputs) {
    const input = element("span", `${name} `);
    input.append(element("b", words.plain(value)));
    inputs.append(input, " ");
  }
  row.append(element("th", words.stageWords(stage.stage), { scope: "row" }), numberCell(stage.replicas), reason, inputs);
  return row;
}

const numberCell = (number) => element("td", known(number) ? String(number) : "–", { class: "number" });

function outcomeRow(decision, held) {
  const row = element("tr", "", { class: held ? "outcome held" : "outcome" });
  const targets = held ? decision.current : decision.outcome.targets;
  const total = targets.reduce((sum, target) => sum + target.replicas, 0);
  const placed = targets.map((target) => `${target.replicas} × ${target.variant}`).join(", ");
  const text = element("td", "", { colspan: "2" });
  text.append(element("span", held ? `left as it is: ${words.reasonWords(decision.outcome.reason)}` : placed, { class: "reason" }));
  if (held && decision.outcome.detail) text.append(element("span", decision.outcome.detail, { class: "detail-text" }));
  row.append(element("th", held ? "Hold" : "Plan", { scope: "row" }), numberCell(total), text);
  return row;
}

export function drawChanges(changes, onPick) {
  const items = changes.slice(0, 12).map((change) => {
    const item = element("li");
    const button = element("button", "", { type: "button", title: "Explain this moment" });
    const step = change.held ? `held at ${change.after}` : change.before === change.after ? `released at ${change.after}` : `${change.before} → ${change.after}`;
    const tone = change.held ? "held" : change.after > change.before ? "up" : change.after < change.before ? "down" : "";
    button.append(element("time", words.time(change.at_s)), element("b", step, { "data-tone": tone }), element("span", changeWords(change)));
    button.addEventListener("click", () => onPick(change.at_s));
    item.append(button);
    return item;
  });
  if (items.length === 0) items.push(element("li", "None since this controller started.", { class: "none" }));
  at("changes").replaceChildren(...items);
}

const changeWords = (change) => words.sentence(change.reason, change.detail);
