"""`python -m tests.mutants [NAME…]`: hunt all mutants, or those named."""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from queue import SimpleQueue

from tests.mutants.catalogue import MUTANTS, named_tests
from tests.mutants.hunt import Fate, Verdict, hunt, what_fails_with_every_guard
from tests.mutants.mutant import Mutant
from tests.mutants.prepared_checkout import PreparedCheckout

AT_ONCE = 2


def main(names: list[str]) -> int:
    """Print a line for each mutant; return 0 only if the tests pass with every guard and fail without each."""
    known = {mutant.name: mutant for mutant in MUTANTS}
    if unknown := sorted(set(names) - set(known)):
        print(f"no such mutant: {', '.join(unknown)}; there are: {', '.join(known)}")
        return 2
    chosen = [known[name] for name in names] if names else list(MUTANTS)
    with ExitStack() as stack:
        idle = SimpleQueue[PreparedCheckout]()
        for _ in range(min(AT_ONCE, len(chosen))):
            idle.put(stack.enter_context(PreparedCheckout()))
        threads = stack.enter_context(ThreadPoolExecutor(AT_ONCE))

        def check(tests: list[str]) -> str:
            prepared = idle.get()
            try:
                return what_fails_with_every_guard(tests, prepared)
            finally:
                idle.put(prepared)

        def hunted(mutant: Mutant) -> Verdict:
            prepared = idle.get()
            try:
                return hunt(mutant, prepared)
            finally:
                idle.put(prepared)

        if failing := "".join(threads.map(check, named_tests(chosen).values())):
            print(f"{failing}\nwith every guard in place, the tests above must pass first")
            return 1
        fates: Counter[Fate] = Counter()
        for done in as_completed([threads.submit(hunted, mutant) for mutant in chosen]):
            verdict = done.result()
            fates[verdict.fate] += 1
            print(verdict.line, flush=True)
            if verdict.fate is not Fate.KILLED:
                print(f"    it guards {verdict.mutant.guards}\n{verdict.output}")
    broken = f", {fates[Fate.BROKEN]} broken" if fates[Fate.BROKEN] else ""
    print(f"{fates[Fate.KILLED]} killed, {fates[Fate.SURVIVED]} survived{broken}")
    return 0 if fates[Fate.KILLED] == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
