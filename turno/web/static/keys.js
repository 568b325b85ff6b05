/** Keys of the tenant's page. Loaded before the page is drawn, so that no key press is lost. */

"use strict";

{
  const rows = () => [...document.querySelectorAll("#choice tbody input, article.job, .rows tbody tr")];

  const move = (step) => {
    const all = rows();
    const here = all.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
    all[here === -1 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + step))]?.focus();
  };

  const keys = {
    "/": () => document.getElementById("q")?.focus(),
    j: () => move(1),
    k: () => move(-1),
    x: () => {
      const row = document.activeElement;
      if (row?.matches("article.job")) (row.querySelector("a[aria-expanded]") ?? row.querySelector("a"))?.click();
      else if (row?.matches('[type="checkbox"]')) row.click();
      else if (row?.matches("tr")) row.querySelector("a")?.click();
    },
    "?": () => document.getElementById("keys")?.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.('input:not([type="checkbox"]), select, textarea, dialog');
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
}
