"""turno-client.js keeps the types in its comments, for itself and its importers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cli.servers.system_packages import TYPESCRIPT

CLIENT = Path(__file__).resolve().parents[3] / "turno" / "web" / "static" / "turno-client.js"
STRICT = ("--strict", "--noEmit", "--allowJs", "--checkJs", "--target", "es2022", "--module", "es2022",
          "--lib", "es2022,dom,dom.iterable")  # fmt: skip

# Each line marked as an error must be one: a type that were `any` would let it pass.
USE = """
import { Turno, TurnoProblem } from "./turno-client.js";

const turno = new Turno({ schema: "suc0001", token: async () => "a token", everything: true });
const more = { key: "k", priority: "low", attempts: 2 };
const answer: { job_id: string } = await turno.submit("batch_invoicing", { order_ids: [1] }, more);
const stop: () => void = turno.follow(answer.job_id, (job) => {
  const done: number = job.progress.done;
  if (job.status === "completed") console.log(done.toFixed());
  // @ts-expect-error
  if (job.status === "finished") console.log(job);
  // @ts-expect-error
  console.log(job.percent);
});
if (turno.connection === "live") stop();
const problem = new TurnoProblem(503, {}, 5);
const seconds: number | null = problem.retryAfter;
await turno.cancel(answer.job_id);
await turno.retry(answer.job_id);
(await turno.ask("GET", "/api/jobs")).headers.get("ETag");
turno.close();
console.log(seconds);
// @ts-expect-error
new Turno({});
// @ts-expect-error
turno.submit("batch_invoicing", {}, { attempts: "two" });
// @ts-expect-error
turno.follow(1, () => {});
// @ts-expect-error
turno.connection = "gone";
export {};
"""


@pytest.fixture(scope="module")
def typescript() -> Path:
    """The compiler; its name marks the tests that need it."""
    return TYPESCRIPT.require()


def test_the_library_and_its_users_are_strictly_typed(typescript: Path, tmp_path: Path) -> None:
    (tmp_path / CLIENT.name).write_text(CLIENT.read_text())
    (tmp_path / "use.ts").write_text(USE)
    checked = subprocess.run([typescript, *STRICT, "use.ts"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (checked.stdout + checked.stderr, checked.returncode) == ("", 0)
