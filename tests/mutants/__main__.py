"""`python -m tests.mutants [NAME…]`: hunt all mutants, or the named ones."""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from queue import SimpleQueue

from tests.mutants.catalogue import MUTANTS
from tests.mutants.hunt import Fate, Verdict, hunt
from tests.mutants.mutant import Mutant
from tests.mutants.prepared_checkout import PreparedCheckout

AT_ONCE = 2


def main(names: list[str]) -> int:
    """Print a line for each mutant; return 0 only if every one is killed."""
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

        def hunted(mutant: Mutant) -> Verdict:
            prepared = idle.get()
            try:
                return hunt(mutant, prepared)
            finally:
                idle.put(prepared)

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
