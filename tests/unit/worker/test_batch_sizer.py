"""How many jobs are a batch is learnt from how long they take."""

from __future__ import annotations

from turno.worker.sources.polling import CLAIMS_PER_BATCH, LARGEST_BATCH, LONGEST_SECONDS, TARGET_SECONDS, BatchSizer


def learnt(seconds: float, *, times: int = 40) -> BatchSizer:
    sizes = BatchSizer()
    for _ in range(times):
        sizes.learn("faulty", seconds)
    return sizes


def test_unknown_type_comes_in_batches_of_one() -> None:
    assert learnt(0.001).of("unknown") == 1


def test_short_types_are_trusted_gradually_up_to_a_bound() -> None:
    seen = [learnt(0.0001, times=times).of("faulty") for times in range(1, 40)]
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (1, LARGEST_BATCH)


def test_batch_is_bounded_by_the_wait_of_others() -> None:
    assert learnt(TARGET_SECONDS / 4).of("faulty") in (3, 4)


def test_slow_claims_enlarge_batches_within_a_bound() -> None:
    sizes = learnt(0.01)
    assert sizes.of("faulty") in (1, 2)
    for _ in range(40):
        sizes.claimed_in(0.001)
    assert sizes.of("faulty") in (1, 2)
    for _ in range(40):
        sizes.claimed_in(0.005)
    assert sizes.of("faulty") == CLAIMS_PER_BATCH * 0.005 // 0.0101
    for _ in range(40):
        sizes.claimed_in(1)
    assert sizes.of("faulty") == LONGEST_SECONDS // 0.0101
    assert learnt(0.0001).of("faulty") == LARGEST_BATCH


def test_a_hiccup_is_forgiven_and_a_long_job_is_not() -> None:
    sizes = learnt(0.001)
    sizes.learn("faulty", TARGET_SECONDS)
    assert 1 < sizes.of("faulty") < LARGEST_BATCH
    sizes.learn("faulty", 1)
    assert sizes.of("faulty") == 1
