/** Show the values at the pointer: in each chart the row of its table, and a line. */

let shown = false;

document.addEventListener("pointermove", (event) => {
  const plot = event.target.closest?.(".plot svg");
  if (!plot && !shown) return;
  const { left, width } = plot?.getBoundingClientRect() ?? {};
  shown = Boolean(plot);
  for (const figure of document.querySelectorAll("figure.chart")) show(figure, plot && (event.clientX - left) / width);
});

function show(figure, part) {
  const number = figure.querySelector("figcaption b");
  const rows = figure.querySelectorAll("tbody tr");
  const row = part === null ? null : rows[Math.round(part * (rows.length - 1))];
  const texts = row && [...row.querySelectorAll("td")].map((cell) => cell.textContent);
  number.textContent = row ? `${row.querySelector("time").textContent} · ${texts.join(" / ")}` : number.dataset.now;
  number.classList.toggle("read", Boolean(row));
  const right = figure.querySelector("svg").viewBox.baseVal.width;
  figure.querySelector(".pointer").setAttribute("d", row ? `M${right * part} 0V100` : "");
}
