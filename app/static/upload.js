/** Send a file in pieces before its form, so that a large one needs no large request and shows how far it is. */

const TRIES = 8; // of one piece, while the network or the service is away
const numbers = new Intl.NumberFormat(document.documentElement.lang, { style: "percent" });

class Refused extends Error {}

async function ask(address, options) {
  for (let left = TRIES; ; left -= 1) {
    let answer = null;
    try {
      answer = await fetch(address, options);
    } catch (error) {
      if (!left) throw error;
    }
    if (answer?.ok) return answer.json();
    if (answer && ![429, 502, 503, 504].includes(answer.status)) throw new Refused((await answer.json()).detail);
    if (!left) throw new Refused((await answer.json()).detail);
    const pause = Math.min(Number(answer?.headers.get("Retry-After")) || 1, 30);
    await new Promise((done) => setTimeout(done, pause * 1000));
  }
}

async function send(form, file, show) {
  const headers = { "X-Schema": form.elements.branch.value };
  const made = await ask(form.dataset.api, {
    method: "POST",
    headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify({ name: file.name, size: file.size }),
  });
  const size = made.piece_bytes;
  for (let n = 0; n * size < file.size; n += 1) {
    await ask(made.links.pieces.replace("{n}", n), {
      method: "PUT",
      headers: { ...headers, "Content-Type": "application/octet-stream" },
      body: file.slice(n * size, (n + 1) * size),
    });
    show(Math.min(1, ((n + 1) * size) / file.size));
  }
  return made.file_id;
}

function prepare() {
  const form = document.getElementById("import");
  if (!form) return;
  const words = JSON.parse(form.dataset.words);
  const [place, bar, said] = ["upload", "uploaded", "upload-said"].map((id) => document.getElementById(id));
  const button = form.querySelector("button.main");
  form.addEventListener("submit", async (event) => {
    const field = form.elements.file;
    const file = field.files[0];
    if (!file) return;
    event.preventDefault();
    button.disabled = true;
    place.hidden = false;
    let quarter = -1;
    const show = (share) => {
      bar.value = share;
      // A screen reader announces each quarter, not each piece.
      if (Math.floor(share * 4) > quarter) said.textContent = words.sending.replace("{share}", numbers.format(share));
      quarter = Math.max(quarter, Math.floor(share * 4));
    };
    show(0);
    try {
      const id = Object.assign(document.createElement("input"), { type: "hidden", name: "file_id" });
      id.value = await send(form, file, show);
      field.disabled = true;
      form.append(id);
      said.textContent = words.kept;
      form.submit();
    } catch (error) {
      said.textContent = error instanceof Refused ? error.message : words.failed;
      button.disabled = false;
    }
  });
}

prepare();
