/** Common to all pages: times in the reader's own zone, forms that are sent once, a list of the keys. */

const two = (number) => String(number).padStart(2, "0");

export const clock = (at) => [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
export const day = (at, words) =>
  words.date.replace("{day}", at.getDate()).replace("{month}", words.months[at.getMonth()]).replace("{year}", at.getFullYear());

/** Write a moment in full as a time's title, and beside it where the server does. */
export function tellExactly(time, at, words) {
  time.title = `${day(at, words)} ${clock(at)}`;
  const beside = time.parentElement.querySelector(".exact");
  if (beside) beside.textContent = time.title;
}

const help = document.getElementById("show-keys");
help.hidden = false;
help.addEventListener("click", () => document.getElementById("keys").showModal());

// A form that was just sent is on its way: the next press would find the same job, and so does nothing. Without a
// connection the form is not sent, and the page with its selection stays.
const SENT_MS = 3000;
const REACH_MS = 10_000;
const unsent = document.getElementById("unsent");
document.addEventListener("submit", async (event) => {
  const [form, button] = [event.target, event.submitter];
  if (form.method !== "post" || event.defaultPrevented || !form.closest("#turno")) return;
  if (form.dataset.sent === "reached") {
    form.dataset.sent = "yes";
    return;
  }
  event.preventDefault();
  if (form.dataset.sent) return;
  form.dataset.sent = "yes";
  unsent.hidden = true;
  if (await reachable()) {
    // A redrawn part of the page may have replaced the form in the meantime.
    if (!form.isConnected) document.getElementById("turno").append(Object.assign(form, { hidden: true }));
    form.dataset.sent = "reached";
    form.requestSubmit(button);
    // Where the browser stays on this page after all, the form is good for another press.
    setTimeout(() => delete form.dataset.sent, SENT_MS);
  } else {
    delete form.dataset.sent;
    (button?.parentElement ?? form).append(unsent);
    unsent.hidden = false;
  }
});

async function reachable() {
  try {
    const signal = AbortSignal.timeout(REACH_MS);
    return (await fetch(import.meta.url, { method: "HEAD", cache: "no-store", signal })).ok;
  } catch {
    return false;
  }
}

addEventListener("pageshow", (event) => {
  if (event.persisted) for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});
