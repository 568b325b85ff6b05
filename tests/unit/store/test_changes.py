"""An announcement names jobs, each once, in payloads that PostgreSQL takes; any other payload is ignored."""

from uuid import UUID, uuid4

import pytest

from turno.store.changes import Changes, Jobs, read_payload


def read_all(payloads: list[str]) -> Jobs:
    result: Jobs = {}
    for payload in payloads:
        for tenant, jobs in read_payload(payload).items():
            result.setdefault(tenant, set()).update(jobs)
    return result


def test_each_change_is_named_once_and_read_again() -> None:
    first, second = uuid4(), uuid4()
    changes = Changes()
    for tenant, job in ((1, first), (1, first), (2, first), (1, second)):
        changes.add(tenant, job)
    assert changes
    assert read_all(changes.take()) == {1: {first, second}, 2: {first}}
    assert not changes
    assert changes.take() == []


def test_changes_fit_into_payloads_of_the_server() -> None:
    wanted: Jobs = {999_999_999: {uuid4() for _ in range(2_000)}, 7: {uuid4()}}
    changes = Changes()
    for tenant, jobs in wanted.items():
        for job in jobs:
            changes.add(tenant, job)
    payloads = changes.take()
    assert max(map(len, payloads)) < 8000
    assert read_all(payloads) == wanted


@pytest.mark.parametrize(
    "payload",
    ["", "x", f"1:{UUID(int=1)}", f"1:{UUID(int=1).hex} ", f"-1:{UUID(int=1).hex}", f"1234567890:{UUID(int=1).hex}",
     f"\u0661:{UUID(int=1).hex}", f"1:{UUID(int=1).hex}\n", f"1:{UUID(int=1).hex};2"],
)  # fmt: skip
def test_payload_without_a_job_is_refused(payload: str) -> None:
    with pytest.raises(ValueError, match="not a payload"):
        read_payload(payload)
