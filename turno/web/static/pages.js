/** Make the tenant's page live: it works without this file, and shows the same. */

import { day, tellExactly } from "./frame.js";
import { Turno } from "./turno-client.js";

const dataset = document.getElementById("turno").dataset;
const words = JSON.parse(dataset.words ?? "{}");
const language = document.documentElement.lang;
const numbers = new Intl.NumberFormat(language);
const turno = new Turno({
  base: dataset.base,
  schema: dataset.branch ?? "",
  session: dataset.session,
  everything: true,
  everyone: "everyone" in dataset,
});
const ENDED = ["completed", "failed", "cancelled"];

const fill = (phrase, values) => phrase.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
const many = (one, other, n) => fill(n === 1 ? one : other, { n: numbers.format(n) });

/* Changes ----------------------------------------------------------------------------------------- */

/** Numbers change in place; a new state is drawn by the server, in its own words. */
function showJob(job) {
  for (const row of document.querySelectorAll(`[data-job="${job.job_id}"]`)) {
    if (Number(row.dataset.revision) >= job.revision && row.dataset.label === job.label) continue;
    row.dataset.revision = job.revision;
    showProgress(row, job);
    if (row.dataset.label !== job.label) refresh();
    else announce(row, job);
  }
  if (!document.querySelector(`[data-job="${job.job_id}"]`) && isNew(job)) refresh();
  if (ENDED.includes(job.status)) for (const kept of [seen, samples]) kept.delete(job.job_id);
}

const seen = new Set();

function isNew(job) {
  const known = seen.has(job.job_id) || ENDED.includes(job.status) || !document.getElementById("jobs");
  seen.add(job.job_id);
  return !known && new URLSearchParams(location.search).get("before") === null;
}

function showProgress(row, job) {
  const { done, failed, total } = job.progress;
  const bar = row.querySelector(".bar");
  if (!bar || !total) return;
  const width = (part) => `${((100 * part) / total).toFixed(2)}%`;
  const [, doneBar, failedBar, leastBar] = bar.querySelectorAll("rect");
  doneBar.setAttribute("width", width(done + failed));
  failedBar.setAttribute("width", width(failed));
  leastBar.setAttribute("width", failed ? 6 : 0);
  const count = fill(words.count, { done: numbers.format(done), total: numbers.format(total) });
  const failures = failed ? many(words.failedOne, words.failedMany, failed) : "";
  bar.setAttribute("aria-valuemax", total);
  bar.setAttribute("aria-valuenow", done + failed);
  bar.setAttribute("aria-valuetext", failures ? `${count}, ${failures}` : count);
  row.querySelector(".count").textContent = count;
  row.querySelector(".failed-count").textContent = failures;
  row.querySelector(".pace").textContent = job.status === "running" ? pace(job) : "";
}

/* A rate and an end, once they are stable: both halves of the last seconds agree. */
const samples = new Map();

function pace(job) {
  const { done, failed, total } = job.progress;
  const now = performance.now() / 1000;
  const past = (samples.get(job.job_id) ?? []).filter(([at]) => now - at < 20);
  past.push([now, done + failed]);
  samples.set(job.job_id, past);
  const [first, last] = [past[0], past[past.length - 1]];
  const middle = past[past.length >> 1];
  if (last[0] - first[0] < 6 || middle === first || middle === last) return "";
  const rate = ([at, n], [later, more]) => (more - n) / (later - at);
  const [before, after, whole] = [rate(first, middle), rate(middle, last), rate(first, last)];
  if (whole <= 0 || Math.abs(before - after) > 0.3 * whole) return "";
  const shown = new Intl.NumberFormat(language, { maximumSignificantDigits: 2 }).format(whole);
  return `${fill(words.rate, { rate: shown })}, ${fill(words.left, { time: lasting((total - last[1]) / whole) })}`;
}

function lasting(seconds) {
  const whole = Math.max(1, Math.round(seconds));
  return whole < 90 ? `${whole} s` : whole < 5400 ? `${Math.round(whole / 60)} min` : `${Math.round(whole / 3600)} h`;
}

/* The server draws, we put its pieces in place ----------------------------------------------------- */

let connection = "";
let drawing = false;
let drawAgain = false;
let drawSoon = false;
let rest;
const SHARE = 4; // without a request, drawing takes at most one part in so many and one of the time, however much happens

/** Fetch this page and replace the parts that differ, except a form in use. */
async function refresh({ requested = false } = {}) {
  drawSoon ||= requested;
  if (drawing || (rest && !requested)) {
    drawAgain = true;
    return;
  }
  clearTimeout(rest);
  drawing = true;
  drawAgain = drawSoon = false;
  const began = performance.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.status === 401 || !answer.ok) return;
    place(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    // No network: the connection shows it, and later events refresh again.
  } finally {
    drawing = false;
    const rested = () => {
      rest = undefined;
      if (drawAgain) refresh();
    };
    rest = setTimeout(rested, drawSoon ? 0 : SHARE * (performance.now() - began));
  }
}

function place(drawn) {
  // The application's content above the jobs may change with them; while the user chooses, it stays unchanged.
  const [here, there] = [document, drawn].map((page) => page.querySelector("[data-shows]"));
  if (here && there && here.dataset.shows !== there.dataset.shows && !here.querySelector(":checked, #q:focus")) {
    here.replaceWith(document.adoptNode(there));
    document.dispatchEvent(new Event("drawn"));
  }
  for (const old of document.querySelectorAll("[data-live]")) {
    const fresh = drawn.getElementById(old.id);
    if (!fresh || fresh.outerHTML === old.outerHTML) continue;
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const [name, form] = [focused?.id, focused?.closest("form")?.getAttribute("action")];
    const row = focused?.closest("[data-job]")?.id;
    old.replaceWith(document.adoptNode(fresh));
    if (!focused) continue;
    const again =
      (name && document.getElementById(name)) ||
      (form && fresh.querySelector(`form[action="${form}"] button`)) ||
      (row && document.getElementById(row));
    again?.focus({ preventScroll: true });
  }
  for (const row of document.querySelectorAll("[data-job]")) sayState(row);
  for (const id of said.keys()) if (!document.querySelector(`[data-job="${id}"]`)) said.delete(id);
  prepareTimes();
  showConnection();
}

/** Open a row in place, with the server's response at the link's address. */
document.addEventListener("click", (event) => {
  const opener = event.target.closest("a[aria-expanded]");
  if (!opener || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const address = new URL(opener.href);
  address.hash = "";
  history.replaceState(null, "", address);
  refresh({ requested: true });
});

/* Announcements: a state when it changes, progress at each quarter -------------------------------- */

const said = new Map();

function say(text) {
  document.getElementById("said").textContent = text;
}

const counts = (row) =>
  [".count", ".failed-count"].map((part) => row.querySelector(part)?.textContent.trim()).filter(Boolean).join(", ");
const what = (row) => (row.querySelector("h2, h3") ?? document.querySelector("h1")).textContent;

function announce(row, job) {
  const { done, failed, total } = job.progress;
  const quarter = total ? Math.floor((4 * (done + failed)) / total) : 0;
  const last = said.get(job.job_id);
  said.set(job.job_id, { ...last, quarter });
  if (last && quarter > (last.quarter ?? 0) && quarter < 4) say(fill(words.running, { what: what(row), count: counts(row) }));
}

function sayState(row) {
  const last = said.get(row.dataset.job);
  const label = row.dataset.label;
  said.set(row.dataset.job, { quarter: 0, ...last, label });
  if (last?.label && last.label !== label) {
    say(fill(words.now, { what: what(row), state: row.querySelector(".state").textContent, count: counts(row) }));
  }
}

/* Times in the reader's own zone ------------------------------------------------------------------- */

const WEEK_MS = 7 * 86_400_000;

/** Write times as the server does, in the reader's zone. */
function prepareTimes() {
  for (const time of document.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    tellExactly(time, at, words);
    if (Math.abs(Date.now() - at) >= WEEK_MS) time.textContent = day(at, words);
  }
}

// A new form has the reader's own time zone.
for (const zone of document.querySelectorAll("#zone[data-own]")) {
  zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone ?? zone.value;
}

/* Begin -------------------------------------------------------------------------------------------- */

prepareTimes();
for (const row of document.querySelectorAll("[data-job]")) {
  seen.add(row.dataset.job);
  sayState(row);
}

addEventListener("pageshow", (event) => {
  if (event.persisted) refresh();
});

turno.addEventListener("job", (event) => showJob(event.detail));
turno.addEventListener("notification", refreshBell);
turno.addEventListener("unread", (event) => {
  // Read in another tab while this tab was disconnected.
  if (event.detail !== Number(document.getElementById("bell").dataset.unread)) refresh();
});
turno.addEventListener("connection", (event) => {
  if (event.detail === "signed-out") return location.reload();
  connection = event.detail;
  showConnection();
});

/** Show the state of the connection at the foot of the page and beside each open job. */
function showConnection() {
  for (const link of document.querySelectorAll(".link")) {
    link.className = `link ${connection}`;
    link.textContent = words[connection] ?? "";
  }
}

function refreshBell(event) {
  const readElsewhere = event.detail.read_at !== null;
  if (readElsewhere || ready || !document.querySelector("#bell .badge")) refresh();
}

// The unread ones of the first state are on the page already.
let ready = false;
turno.addEventListener("connection", () => setTimeout(() => (ready = true)), { once: true });
for (const row of document.querySelectorAll("[data-job]:not([data-ended])")) turno.follow(row.dataset.job, () => {});
turno.start();
