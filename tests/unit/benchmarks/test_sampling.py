from itertools import count

import pytest

from benchmarks.sampling import Figure, Ratio, divided, interleaved, quantile, timed


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1), (0.01, 1), (0.25, 25), (0.5, 50), (0.99, 99), (0.991, 100), (1.0, 100)]
)
def test_quantile_is_smallest_sufficient_sample(share: float, value: float) -> None:
    assert quantile(list(range(100, 0, -1)), share) == value


def test_a_figure_has_the_middle_the_slow_end_and_the_bounds() -> None:
    figure = Figure.of([4.0, 1.0, 3.0, 2.0])
    assert figure == Figure(n=4, p10=1.0, median=2.5, p99=4.0, low=1.0, high=4.0, iqr=2.0)


def test_one_sample_is_a_figure() -> None:
    assert Figure.of([7.0]) == Figure(n=1, p10=7.0, median=7.0, p99=7.0, low=7.0, high=7.0, iqr=0.0)


@pytest.mark.parametrize(("number", "blocks"), [(10, 3), (9, 3), (3, 10), (1, 1), (101, 10)])
def test_cutting_into_blocks_loses_nothing_and_leaves_none_empty(number: int, blocks: int) -> None:
    cut = divided(list(range(number)), blocks)
    assert [value for block in cut for value in block] == list(range(number))
    assert len(cut) == min(blocks, number)
    assert all(cut)


def test_ratio_of_neighbours_cancels_a_slow_hour() -> None:
    floor = [1.0, 1.0, 10.0, 10.0]
    ours = [2.0, 2.0, 20.0, 20.0]
    assert Ratio.of(ours, floor, blocks=4) == Ratio(2.0, 2.0, 2.0, quiet=2.0)


def test_ratio_has_its_range() -> None:
    assert Ratio.of([1.0, 2.0, 6.0], [1.0, 1.0, 2.0], blocks=3) == Ratio(2.0, 1.0, 3.0, quiet=1.0)


def test_ratio_takes_different_numbers_of_samples() -> None:
    assert Ratio.of([2.0] * 30, [1.0] * 70, blocks=10) == Ratio(2.0, 2.0, 2.0, quiet=2.0)
    assert Ratio.of([2.0] * 32, [1.0] * 8, blocks=10) == Ratio(2.0, 2.0, 2.0, quiet=2.0)


def test_quiet_ratio_ignores_common_delays() -> None:
    disturbed = Ratio.of([2.0] * 2 + [12.0] * 8, [1.0] * 2 + [11.0] * 8, blocks=1)
    assert disturbed.median < 1.1
    assert disturbed.quiet == 2.0


def test_contestants_alternate_after_warm_up_rounds() -> None:
    order = count()
    turns = {name: lambda: [float(next(order))] for name in ("floor", "ours")}
    assert interleaved(turns, rounds=2, warm_up=1) == {"floor": [2.0, 4.0], "ours": [3.0, 5.0]}


def test_sampling_ends_after_a_counted_round_in_time() -> None:
    assert interleaved({"ours": lambda: [1.0]}, rounds=1000, seconds=0.0) == {"ours": [1.0]}


def test_a_turn_does_the_work_so_many_times_and_times_each() -> None:
    done: list[int] = []
    samples = timed(lambda: done.append(1), times=3)()
    assert (len(done), len(samples)) == (3, 3)
    assert all(sample >= 0 for sample in samples)
