import pytest
from hypothesis import given
from hypothesis import strategies as st

from turno.jobs.outcome import RetryPolicy

PLAIN = RetryPolicy(jitter="none")


@pytest.mark.parametrize(
    ("errors", "seconds"),
    [
        (1, 5.0),  # the first pause
        (2, 10.0),  # doubles
        (3, 20.0),
        (10, 2560.0),
        (11, 3600.0),  # held at the longest
        (5000, 3600.0),  # far past the largest float's exponent
    ],
)
def test_the_plain_delay_doubles_up_to_the_longest(errors: int, seconds: float) -> None:
    assert PLAIN.delay(errors, 0.5) == seconds


def test_percent_jitter_moves_by_a_fifth_at_most() -> None:
    policy = RetryPolicy(jitter="percent")
    assert policy.delay(1, 0.0) == pytest.approx(4.0)
    assert policy.delay(1, 0.5) == pytest.approx(5.0)
    assert policy.delay(1, 0.999999) == pytest.approx(6.0, abs=0.01)


def test_decorrelated_jitter_is_up_to_three_plain_delays() -> None:
    policy = RetryPolicy(jitter="decorrelated")
    assert policy.delay(2, 0.0) == pytest.approx(5.0)
    assert policy.delay(2, 0.999999) == pytest.approx(30.0, abs=0.01)


@given(
    errors=st.integers(1, 10_000),
    chance=st.floats(0, 1, exclude_max=True),
    jitter=st.sampled_from(["none", "percent", "decorrelated"]),
    first=st.floats(0, 100),
    factor=st.floats(1, 10),
)
def test_no_delay_is_negative_or_longer_than_the_longest(
    errors: int, chance: float, jitter: str, first: float, factor: float
) -> None:
    policy = RetryPolicy(first=first, factor=factor, jitter=jitter)  # type: ignore[arg-type]
    assert 0 <= policy.delay(errors, chance) <= policy.longest


def test_never_means_one_attempt() -> None:
    assert RetryPolicy.never().max_attempts == 1


@pytest.mark.parametrize("wrong", [{"max_attempts": 0}, {"first": -1}, {"first": 10, "longest": 5}, {"factor": 0.5}])
def test_a_senseless_policy_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"max_attempts|expected"):
        RetryPolicy(**wrong)  # type: ignore[arg-type]
