// The four charts of one service. Unknown is a gap, a hold is a tinted span, a silence a hatched one.

import { known, numberOr, reasonWords, wall } from "./words.js";

const drawn = ["demand", "replicas", "slo", "cost"].map((key) => document.getElementById(`chart-${key}`));
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false };
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const valueOf = (value) => numberOr(value, null);

// Rows with an empty one wherever the controller was silent for longer than it may be.
function withGaps(points, longest_s) {
  const rows = [], gaps = [];
  points.forEach((point, index) => {
    const before = points[index - 1];
    if (before && point.at_s - before.at_s > longest_s) {
      rows.push({ at_s: before.at_s + 1 });
      gaps.push([before.at_s, point.at_s]);
    }
    rows.push(point);
  });
  return { rows, gaps };
}

// Areas are drawn by unbroken runs: a filled shape would bridge what is not known.
function runs(rows, test) {
  const found = [];
  rows.forEach((row, index) => {
    if (!test(row)) return;
    if (index > 0 && test(rows[index - 1])) found.at(-1).push(row);
    else found.push([row]);
  });
  return found.map((run) => ({
    x: run.map((row) => wall(row.at_s)), at: run.map((row) => row.at_s), rows: run, column: (key) => run.map((row) => row[key]),
  }));
}

function holds(points, longest_s) {
  const spans = [];
  points.forEach((point, index) => {
    if (!point.held) return;
    const next = points[index + 1];
    const until = next ? Math.min(next.at_s, point.at_s + longest_s) : point.at_s;
    const last = spans.at(-1);
    if (last && last.until >= point.at_s && last.reason === point.held) last.until = until;
    else spans.push({ since: point.at_s, until, reason: point.held });
  });
  return spans;
}

const span = (since, until, fill, opacity) => ({
  type: "rect", xref: "x", yref: "paper", x0: wall(since), x1: wall(until), y0: 0, y1: 1,
  fillcolor: fill, opacity, line: { width: 0 }, layer: "below",
});
const upright = (at_s, ink, dash) => ({
  type: "line", xref: "x", yref: "paper", x0: wall(at_s), x1: wall(at_s), y0: 0, y1: 1, line: { color: ink, width: 1, dash },
});

function layout(view, shapes, yaxis, labels = []) {
  const soft = colour("soft"), line = colour("line");
  return {
    margin: { l: 46, r: 10, t: 10, b: 26 }, height: 216, showlegend: false, dragmode: false, hovermode: "x unified",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", shapes, annotations: labels,
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: soft },
    hoverlabel: { bgcolor: colour("card"), bordercolor: line, font: { color: colour("ink"), size: 12 } },
    xaxis: {
      type: "date", range: [wall(view.since), wall(view.until)], fixedrange: true, showgrid: false, nticks: 6,
      linecolor: line, ticks: "outside", tickcolor: line, ticklen: 4, tickformat: view.until - view.since < 400 ? "%H:%M:%S" : "%H:%M",
      hoverformat: "%H:%M:%S", showspikes: true, spikemode: "across", spikethickness: 1, spikecolor: soft, spikedash: "solid",
    },
    yaxis: { fixedrange: true, gridcolor: line, zeroline: false, nticks: 5, rangemode: "tozero", automargin: false, ...yaxis },
  };
}

export function drawCharts({ points, share, view, longest_s, pinned_s, onPick }) {
  if (!window.Plotly || points.length === 0) return;
  const { rows, gaps } = withGaps(points, longest_s);
  const held = holds(points, longest_s);
  const x = rows.map((row) => wall(row.at_s));
  const at = rows.map((row) => row.at_s);
  const column = (key) => rows.map((row) => valueOf(row[key]));
  const marks = [
    ...held.map((run) => span(run.since, run.until, colour("held"), 0.2)),
    ...gaps.map(([since, until]) => span(since, until, colour("soft"), 0.12)),
    ...(known(pinned_s) ? [upright(pinned_s, colour("ink"), "solid")] : []),
  ];
  const plots = {
    demand: demandPlot(rows, { x, at, column, marks, view, held }),
    replicas: replicasPlot(rows, { x, at, column, marks, view }),
    slo: sloPlot(rows, { x, at, column, marks, view, share }),
    cost: costPlot(rows, { marks, view }),
  };
  for (const element of drawn) {
    const { traces, frame } = plots[element.id.slice("chart-".length)];
    window.Plotly.react(element, traces, frame, CONFIG);
    if (!element.picking) {
      element.picking = true;
      element.on("plotly_click", (event) => onPick(event.points.find((point) => known(point.customdata))?.customdata));
    }
  }
}

function line(name, x, y, at, ink, more = {}) {
  return { type: "scatter", mode: "lines", name, x, y, customdata: at, connectgaps: false, line: { color: ink, width: 2, ...more.line }, hovertemplate: more.hover ?? "%{y}", ...more.trace };
}

function demandPlot(rows, { x, at, column, marks, view, held }) {
  const violet = colour("forecast"), rps = "%{y:.2f} req/s";
  const bands = runs(rows, (row) => known(row.forecast_rps) && known(row.forecast_for_s)).flatMap((run) => {
    // A lead time that shrinks would draw backwards.
    const ahead = run.rows.filter((row, index, all) => index === 0 || row.forecast_for_s > all[index - 1].forecast_for_s);
    const due = ahead.map((row) => wall(row.forecast_for_s)), made = ahead.map((row) => row.at_s);
    return [
      line("forecast, median", due, ahead.map((row) => numberOr(row.forecast_median_rps, row.forecast_rps)), made, violet, { line: { width: 1, dash: "dot" }, hover: rps }),
      line("forecast, bound", due, ahead.map((row) => row.forecast_rps), made, violet, { line: { width: 1 }, hover: rps, trace: { fill: "tonexty", fillcolor: colour("forecast-fill") } }),
    ];
  });
  const capacity = rows.map((row) => (known(row.capacity_rps) ? row.ready * row.capacity_rps : null));
  const traces = [
    ...bands,
    line("capacity in SLO", x, capacity, at, colour("capacity"), { line: { width: 1.5, shape: "hv" }, hover: rps }),
    line("measured", x, column("short_rps"), at, colour("demand"), { hover: rps }),
  ];
  const wide = (view.until - view.since) / 12;
  const labels = held.filter((run) => run.until - run.since > wide).map((run) => ({
    x: wall(Math.max(run.since, view.since)), xanchor: "left", y: 1, yref: "paper", yanchor: "top", showarrow: false,
    text: `held: ${reasonWords(run.reason)}`, font: { size: 11, color: colour("held-ink") },
  }));
  return { traces, frame: layout(view, [...marks, upright(view.now, colour("soft"), "dot")], {}, labels) };
}

function replicasPlot(rows, { x, at, column, marks, view }) {
  const counted = runs(rows, (row) => known(row.ready));
  const areas = counted.flatMap((run, index) => [["ready", "ready-area"], ["starting", "starting"], ["draining", "draining"]].map(
    ([key, ink]) => line(key, run.x, run.column(key), run.at, colour(ink), {
      line: { width: 0, shape: "hv" }, trace: { stackgroup: `fleet ${index}`, fillcolor: colour(ink) },
    }),
  ));
  const traces = [...areas, line("desired", x, column("desired"), at, colour("ink"), { line: { shape: "hv" } })];
  if (column("failed").some((count) => count > 0)) {
    traces.push(line("failed", x, column("failed"), at, colour("bad"), { line: { dash: "dot", shape: "hv" } }));
  }
  const seen = counted.flatMap((run) => run.rows).filter((row) => row.at_s >= view.since);
  const most = Math.max(2, ...seen.map((row) => Math.max(row.desired, row.ready + row.starting + row.draining)));
  return { traces, frame: layout(view, marks, { tickformat: "d", dtick: Math.ceil(most / 4), range: [0, most * 1.06] }) };
}

function sloPlot(rows, { x, at, column, marks, view, share }) {
  const traces = runs(rows, (row) => known(row.attained) && known(share)).flatMap((run) => [
    line("target", run.x, run.x.map(() => share), run.at, colour("target"), { line: { width: 1.5, dash: "dash" }, hover: "%{y:.2%}" }),
    line("missing", run.x, run.rows.map((row) => Math.min(row.attained, share)), run.at, colour("bad"), {
      line: { width: 0 }, trace: { fill: "tonexty", fillcolor: colour("bad-fill"), hoverinfo: "skip", hovertemplate: undefined },
    }),
  ]);
  traces.push(line("attained", x, column("attained"), at, colour("ready"), { hover: "%{y:.2%}" }));
  const seen = rows.filter((row) => row.at_s >= view.since && known(row.attained)).map((row) => row.attained);
  const least = Math.min(...seen, numberOr(share, 1)), room = Math.max(0.002, (1 - least) * 0.15);
  const range = [Math.max(0, least - room), 1 + room * 0.4];
  return { traces, frame: layout(view, marks, { rangemode: "normal", range, tickformat: range[1] - range[0] < 0.03 ? ".1%" : ".0%" }) };
}

function costPlot(rows, { marks, view }) {
  const traces = runs(rows, (row) => known(row.cost_per_hour)).map((run) => line("per hour", run.x, run.column("cost_per_hour"), run.at, colour("cost"), {
    line: { shape: "hv", width: 1.5 }, hover: "%{y:.2f}", trace: { fill: "tozeroy", fillcolor: colour("cost-fill") },
  }));
  return { traces, frame: layout(view, marks, {}) };
}

export function describeCharts(words) {
  for (const element of drawn) element.setAttribute("aria-label", words[element.id.slice("chart-".length)]);
}
