import pytest

from cli.commands.test_run import FEW, few_failed


@pytest.mark.parametrize(
    ("closing_line", "few"),
    [
        ("=== 1 failed, 1999 passed in 300.00s (0:05:00) ===", True),
        (f"=== {FEW} failed, 1999 passed in 300.00s ===", True),
        (f"=== {FEW + 1} failed, 1999 passed in 300.00s ===", False),
        ("=== 1 failed, 1999 passed, 1 error in 300.00s ===", True),
        (f"=== 1 failed, {FEW} errors in 3.00s ===", False),
        ("=== 2000 passed in 300.00s ===", False),
        ("", False),
    ],
)
def test_only_a_few_failures_are_run_again_alone(closing_line: str, few: bool) -> None:  # noqa: FBT001
    assert few_failed(closing_line) is few
