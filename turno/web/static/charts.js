/** Draw the tables of the charts' page: each figure's table has its data, and stays for screen readers. */

/* global uPlot */

const HEIGHT = 128;
const UNITS = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"], [1, "ms"]];
const numbers = new Intl.NumberFormat(document.documentElement.lang, { maximumSignificantDigits: 3 });
const clock = new Intl.DateTimeFormat(document.documentElement.lang, { hour: "2-digit", minute: "2-digit" });

const drawn = new Set();

const lasting = (ms) => {
  const [size, unit] = UNITS.find(([least]) => ms >= least) ?? [1, "ms"];
  return `${numbers.format(ms / size)} ${unit}`;
};
const written = (kind, value) => (value === null ? "–" : kind === "wait" ? lasting(value) : numbers.format(value));

/** Return a figure's data as uPlot takes it: the moments, then each column. */
function read(figure) {
  const rows = [...figure.querySelectorAll("tbody tr")];
  const moments = rows.map((row) => new Date(row.querySelector("time").dateTime) / 1000);
  const columns = figure.querySelectorAll("thead th").length - 1;
  const column = (index) => rows.map((row) => {
    const text = row.querySelectorAll("td")[index].dataset.v;
    return text === "" ? null : Number(text);
  });
  return [moments, ...Array.from({ length: columns }, (_, index) => column(index))];
}

function draw() {
  for (const chart of drawn) chart.destroy();
  drawn.clear();
  const figures = [...document.querySelectorAll("figure.chart")];
  const data = new Map(figures.map((figure) => [figure, read(figure)]));
  // The same axis for all of a kind, so that rows can be compared.
  const highest = {};
  for (const figure of figures) {
    const values = data.get(figure).slice(1).flat().filter((value) => value !== null);
    highest[figure.dataset.kind] = Math.max(highest[figure.dataset.kind] ?? 0, ...values);
  }
  const marks = [...document.querySelectorAll("[data-mark]")].map((one) => Number(one.dataset.mark));
  for (const figure of figures) drawn.add(plot(figure, data.get(figure), highest[figure.dataset.kind], marks));
}

function plot(figure, data, highest, marks) {
  const { kind } = figure.dataset;
  const style = getComputedStyle(figure);
  const colour = (name) => style.getPropertyValue(name).trim();
  const lines = { done: ["--accent"], wait: ["--edge", "--accent"], failed: ["--failed"] }[kind];
  const place = figure.querySelector(".plot");
  const told = figure.querySelector("figcaption b");
  const now = told.textContent;
  const axis = { stroke: colour("--quiet"), font: "12px system-ui, sans-serif", ticks: { show: false } };
  const options = {
    width: place.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { sync: { key: "turno" }, y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { y: { range: [0, (highest || 1) * 1.05] } },
    axes: [
      { ...axis, size: 24, grid: { show: false }, values: (_, at) => at.map((one) => clock.format(one * 1000)), space: 72 },
      {
        ...axis, size: 52, space: 40, grid: { stroke: colour("--line"), width: 1 },
        values: (_, at) => at.map((value) => written(kind, value)),
      },
    ],
    series: [
      {},
      ...lines.map((name, index) => ({
        stroke: colour(name), width: 1.75, points: { show: false }, spanGaps: false,
        fill: lines.length === 1 || index === 1 ? `${colour(name)}22` : undefined,
      })),
    ],
    hooks: {
      setCursor: [(chart) => {
        const at = chart.cursor.idx;
        told.textContent = at === null || at === undefined || chart.cursor.left < 0
          ? now
          : `${clock.format(data[0][at] * 1000)} · ${data.slice(1).map((column) => written(kind, column[at])).join(" / ")}`;
      }],
      draw: [(chart) => {
        const { ctx, bbox } = chart;
        ctx.save();
        ctx.strokeStyle = colour("--waiting");
        ctx.setLineDash([4, 4]);
        for (const at of marks.filter((one) => one >= data[0][0])) {
          const x = chart.valToPos(at, "x", true);
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        }
        ctx.restore();
      }],
    },
  };
  place.textContent = "";
  return new uPlot(options, data, place);
}

let later;
const soon = () => {
  clearTimeout(later);
  later = setTimeout(draw, 100);
};

document.addEventListener("drawn", draw);
addEventListener("resize", soon);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
