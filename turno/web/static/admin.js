/** Keep an operator's page up to date: it works without this file, and shows the same. */

import { clock, tellExactly } from "./frame.js";

const dataset = document.getElementById("turno").dataset;
const words = JSON.parse(dataset.words ?? "{}");
const link = document.getElementById("link");

const EVERY_MS = 5000;
const SHARE = 4; // drawing takes at most one part in so many and one of the time, however slow it is
const LONGEST_MS = 60_000;

/* The server draws, we put its pieces in place ----------------------------------------------------- */

let next;

async function refresh() {
  clearTimeout(next);
  if (document.hidden) return;
  const began = performance.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.status === 401) return location.reload();
    if (!answer.ok) throw new Error(answer.status);
    place(new DOMParser().parseFromString(await answer.text(), "text/html"));
    tell("live", words.updated.replace("{time}", clock(new Date())));
  } catch {
    tell("offline", words.offline);
  }
  const rest = Math.min(LONGEST_MS, Math.max(EVERY_MS, SHARE * (performance.now() - began)));
  next = setTimeout(refresh, rest);
}

function tell(state, text) {
  link.className = `link ${state}`;
  link.textContent = text;
}

function place(drawn) {
  document.title = drawn.title;
  for (const old of document.querySelectorAll("[data-live]")) {
    const fresh = drawn.getElementById(old.id);
    if (!fresh) continue;
    for (const open of old.querySelectorAll("details[open][id]")) {
      const again = fresh.querySelector(`#${open.id}`);
      if (again) again.open = true;
    }
    if (fresh.outerHTML === old.outerHTML) continue;
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const before = old.querySelector("h1")?.textContent;
    const where = focused && place_of(focused, old);
    const scrolled = [...old.querySelectorAll("pre[id]")].map((one) => [one.id, one.scrollTop]);
    old.replaceWith(document.adoptNode(fresh));
    for (const [id, top] of scrolled) document.getElementById(id)?.scrollTo(0, top);
    if (focused) found_at(where, fresh)?.focus({ preventScroll: true });
    const now = fresh.querySelector("h1")?.textContent;
    if (now && now !== before) document.getElementById("said").textContent = now;
  }
  times();
  copies();
}

/* A focused thing is found again by its id, its address, or its row. */
function place_of(focused, within) {
  const row = focused.closest("tr");
  return {
    id: focused.id,
    href: focused.getAttribute("href"),
    row: row ? [...within.querySelectorAll("tr")].indexOf(row) : -1,
  };
}

function found_at({ id, href, row }, within) {
  if (id) return document.getElementById(id);
  const links = [...within.querySelectorAll("a[href]")];
  return (href && links.find((one) => one.getAttribute("href") === href)) || within.querySelectorAll("tr")[row];
}

document.addEventListener("visibilitychange", refresh);

/* Times in the reader's own zone ------------------------------------------------------------------- */

function times() {
  for (const time of document.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    if (time.closest(".scrolls, .moments")) time.textContent = clock(at).slice(0, 5);
    else if (time.closest(".log")) time.textContent = clock(at);
    else tellExactly(time, at, words);
  }
}

/* Begin -------------------------------------------------------------------------------------------- */

// A press copies a command line; without a clipboard it can be selected by hand.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copies]");
  if (!button) return;
  await navigator.clipboard?.writeText(document.getElementById(button.dataset.copies).textContent);
  document.getElementById("said").textContent = button.textContent = button.dataset.done;
});
function copies() {
  for (const button of document.querySelectorAll("[data-copies]")) button.hidden = !navigator.clipboard;
}

times();
copies();
next = setTimeout(refresh, EVERY_MS);
