/** Choose orders: how many are chosen stands on the button, and one box chooses the whole page. */

const numbers = new Intl.NumberFormat(document.documentElement.lang);

function prepare() {
  const form = document.getElementById("choice");
  if (!form) return;
  const words = JSON.parse(form.dataset.words);
  const boxes = [...form.querySelectorAll('input[name="order"]')];
  const every = document.getElementById("every");
  const some = document.getElementById("some");
  every.hidden = false;
  const show = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    const phrase = chosen === 1 ? words.someOne : words.someMany;
    some.textContent = chosen ? phrase.replace("{n}", numbers.format(chosen)) : words.none;
    some.disabled = chosen === 0;
    every.checked = chosen === boxes.length;
    every.indeterminate = chosen > 0 && chosen < boxes.length;
  };
  every.addEventListener("change", () => {
    for (const box of boxes) box.checked = every.checked;
    show();
  });
  form.addEventListener("change", show);
  show();
}

document.addEventListener("drawn", prepare);
prepare();
