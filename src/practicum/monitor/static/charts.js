// The charts of a page: points from the server, drawn by uPlot, and the same as a table.

const COLOURS = 8;
const HEIGHT = 190;
const drawn = new Map();

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export async function drawCharts() {
  const root = document.getElementById("charts");
  if (!root) return;
  const answer = await fetch(root.dataset.points);
  if (!answer.ok) return;
  const { charts, marks } = await answer.json();
  const last = Math.max(0, ...charts.flatMap((one) => one.series.map((each) => each.x.at(-1))));
  const byId = new Map(charts.map((one) => [one.id, one]));
  for (const figure of root.querySelectorAll("[data-chart]")) {
    const chart = byId.get(figure.dataset.chart);
    figure.hidden = !chart;
    if (chart) draw(figure, chart, marks, last);
  }
  root.dataset.drawn = String(Number(root.dataset.drawn ?? 0) + 1);
}

function draw(figure, chart, marks, last) {
  const { data, series, bands } = columns(chart);
  figure.querySelector("output").replaceChildren(...chart.series.map((one, index) => {
    const told = document.createElement("span");
    told.className = `c${index % COLOURS}`;
    told.textContent = `${one.name === chart.title ? "" : `${one.name} `}${round(one.y.at(-1))}`;
    return told;
  }));
  const known = drawn.get(figure);
  if (known && known.plot.series.length === data.length) {
    Object.assign(known, { marks, last });
    known.plot.setData(data);
  } else {
    known?.plot.destroy();
    drawn.set(figure, make(figure, chart, { data, series, bands }, marks, last));
  }
  const details = figure.querySelector("details");
  const table = () => { if (details.open) fillTable(details.querySelector(".numbers"), chart); };
  details.ontoggle = table;
  table();
}

function columns(chart) {
  const tables = [], series = [{ label: "step" }], bands = [];
  chart.series.forEach((one, index) => {
    const stroke = colour(`--c${index % COLOURS}`);
    const few = one.x.length < 30;
    tables.push([one.x, one.y]);
    series.push({ label: one.name, stroke, width: 1.6, spanGaps: true, points: { show: few, size: 5 },
      value: (_, value) => round(value) });
    if (!one.low) return;
    tables.push([one.x, one.high], [one.x, one.low]);
    const edge = { stroke: "transparent", width: 0, spanGaps: true, points: { show: false } };
    bands.push({ series: [series.length, series.length + 1], fill: `color-mix(in srgb, ${stroke} 18%, transparent)` });
    series.push({ ...edge, label: `${one.name} to`, value: (_, v) => round(v) });
    series.push({ ...edge, label: `${one.name} from`, value: (_, v) => round(v) });
  });
  return { data: uPlot.join(tables), series, bands };
}

function make(figure, chart, { data, series, bands }, marks, last) {
  const place = figure.querySelector(".plot");
  place.replaceChildren();
  const kept = { marks, last };
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  kept.plot = new uPlot({
    width: place.clientWidth || 320, height: HEIGHT, series, bands,
    cursor: { y: false, sync: { key: "steps" } },
    scales: { x: { time: false, range: () => [0, Math.max(1, kept.last)] }, y: { range: (_, low, high) => range(chart, low, high) } },
    axes: [{ ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 10000, 100000] },
      { ...axis, size: 52, values: (_, ticks) => ticks.map(round) }],
    legend: { show: false },
    hooks: { draw: [(plot) => drawMarks(plot, kept.marks)] },
  }, data, place);
  const canvas = place.querySelector("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${chart.title} over the steps; the numbers are below`);
  new ResizeObserver(() => kept.plot.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);
  return kept;
}

function range(chart, low, high) {
  const bottom = chart.low ?? low ?? 0, top = chart.high ?? high ?? 1;
  if (bottom === 0 && top === 0) return [0, 1];
  const room = top > bottom ? (top - bottom) * 0.06 : Math.abs(top) * 0.1 || 1;
  return [chart.low ?? bottom - room, chart.high ?? top + room];
}

function drawMarks(plot, marks) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.setLineDash([4, 4]);
  for (const mark of marks) {
    const x = plot.valToPos(mark.step, "x", true);
    if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
    ctx.strokeStyle = colour(mark.kind === "alarm" ? "--bad" : "--warn");
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function round(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(1);
  return String(Number(value.toFixed(size < 1 ? 3 : 2)));
}

function fillTable(place, chart) {
  const table = document.createElement("table");
  const cell = (row, tag, text) => { const made = document.createElement(tag); made.textContent = text; row.append(made); };
  const head = table.createTHead().insertRow();
  for (const title of ["curve", "step", "value", ...(chart.series.some((one) => one.low) ? ["from", "to"] : [])]) {
    cell(head, "th", title);
  }
  const inside = table.createTBody();
  for (const one of chart.series) {
    one.x.slice(-200).forEach((step, index) => {
      const at = Math.max(0, one.x.length - 200) + index;
      const row = inside.insertRow();
      const bounds = one.low ? [round(one.low[at]), round(one.high[at])] : [];
      for (const text of [one.name, step, round(one.y[at]), ...bounds]) cell(row, "td", text);
    });
  }
  place.replaceChildren(table);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const { plot } of drawn.values()) plot.destroy();
  drawn.clear();
  drawCharts();
});
