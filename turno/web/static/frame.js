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

// A form that was just sent is on its way: the next press would find the same job, and so does nothing.
const SENT_MS = 3000;
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
  // Where the browser stays on this page after all, the form is good for another press.
  setTimeout(() => delete form.dataset.sent, SENT_MS);
});
addEventListener("pageshow", (event) => {
  if (event.persisted) for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});
