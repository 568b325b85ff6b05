"""The parent's view of a child: its jobs, its current job, and its remaining jobs."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from time import monotonic
from uuid import uuid4

import pytest

from turno.jobs.job import Batch, Claim
from turno.runner.protocol import FREE, LARGEST_PACKET, LEAVING, PROGRESSED, Word, unpacked
from turno.runner.shared_state import SharedState
from turno.tenancy.identity.tenant import HandlerLogin
from turno.worker.child import SHOWN_AFTER_SECONDS, Child, Report

LOGIN = HandlerLogin(slug="suc0001", schema="t_0123456789ab", role="r", epoch=0)


def a_batch(jobs: int = 3) -> Batch:
    return tuple(
        Claim(job_id=uuid4(), token=uuid4(), attempt=1, type="faulty", version=1, tenant_id=1, login=LOGIN)
        for _ in range(jobs)
    )


def unlocked(claim: Claim, child: int) -> Claim:
    conninfo = f"dbname=turno user={claim.login.role} password=of-this-role-alone application_name={child}"
    return replace(claim, login=replace(claim.login, conninfo=conninfo))


class Scene:
    """A child of which only its end of the channel and of the memory lives."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.shared = SharedState()
        self.child = Child(self._process.pid, ours, self.shared, unlocked)

    def receives(self) -> Batch:
        batch = unpacked(self.theirs.recv(LARGEST_PACKET, socket.MSG_DONTWAIT))
        self.shared.next_batch()
        return batch

    def works(self, job: int) -> None:
        assert self.shared.begins(job)
        self.shared.works(job)

    def says(self, *word: object) -> tuple[list[Report], Batch]:
        self.theirs.send(Word(*word).packed())  # type: ignore[arg-type]
        return self.child.read()

    def end(self) -> None:
        self._process.communicate()
        self.child.close()
        self.theirs.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.end()


def test_it_is_done_with_a_batch_and_takes_the_next(scene: Scene) -> None:
    batch = a_batch()
    scene.child.assign(batch)
    assert (scene.receives(), scene.child.idle) == (batch, False)
    assert scene.says(FREE, 3, 6_000_000) == ([Report(batch, 2.0)], ())
    assert (scene.child.idle, scene.child.claims) == (True, ())


def test_progressing_job_has_not_ended(scene: Scene) -> None:
    batch = a_batch()
    scene.child.assign(batch)
    assert scene.says(PROGRESSED, 1) == ([Report(batch[1:2])], ())
    assert scene.child.claims == batch


def test_unfinished_jobs_return_to_the_parent(scene: Scene) -> None:
    batch = a_batch()
    scene.child.assign(batch)
    scene.receives()
    assert scene.says(LEAVING, 1, 0) == ([Report(batch[:1], 0.0)], batch[1:])
    assert not scene.child.idle


def test_unbegun_jobs_are_recalled_and_child_stays_busy(scene: Scene) -> None:
    batch = a_batch()
    scene.child.assign(batch)
    scene.receives()
    scene.works(0)
    assert scene.child.more
    assert (scene.child.call_back(), scene.child.claims, scene.child.more) == (batch[1:], batch[:1], False)
    assert not scene.shared.begins(1)
    assert scene.says(FREE, 1, 0) == ([Report(batch[:1], 0.0)], ())
    assert scene.child.idle


def test_job_recalled_before_receipt_is_not_begun(scene: Scene) -> None:
    batch = a_batch()
    scene.child.assign(batch)
    assert scene.child.call_back() == batch
    assert not scene.child.idle
    scene.receives()
    assert not scene.shared.begins(0)
    assert scene.says(FREE, 0, 0) == ([Report((), 0.0)], ())
    assert scene.child.idle


def test_contested_job_is_resolved_by_the_child(scene: Scene) -> None:
    batch = a_batch()
    scene.child.assign(batch)
    scene.receives()
    scene.works(0)
    back: list[Batch] = []
    begins = scene.shared._words  # the parent reads after the child has written that it is about to begin the next
    begins[4] = 1
    back.append(scene.child.call_back())
    assert not scene.shared.begins(1)
    back.append(scene.says(FREE, 1, 0)[1])
    assert back == [batch[2:], batch[1:2]]


def test_death_blames_the_running_job_only(scene: Scene) -> None:
    batch = a_batch()
    scene.child.assign(batch)
    scene.receives()
    for job in (0, 1):
        scene.works(job)
    remains = scene.child.unfinished
    assert (remains.blamed, remains.begun, remains.unbegun) == (batch[1], batch[:2], batch[2:])


@pytest.mark.parametrize(("jobs", "known"), [(3, False), (1, True)])
def test_death_between_jobs_blames_a_lone_job_only(scene: Scene, jobs: int, *, known: bool) -> None:
    batch = a_batch(jobs)
    scene.child.assign(batch)
    remains = scene.child.unfinished
    assert (remains.blamed, remains.begun, remains.unbegun) == (batch[0] if known else None, batch, ())
    scene.receives()
    for job in range(jobs):
        scene.works(job)
    scene.shared.rests()
    remains = scene.child.unfinished
    assert (remains.blamed, remains.begun) == (batch[0] if known else None, batch)


def test_each_job_that_is_long_is_shown_once(scene: Scene) -> None:
    batch = a_batch()
    assert scene.child.show_at == float("inf")
    scene.child.assign(batch)
    scene.receives()
    for job in (0, 1):
        scene.works(job)
        assert 0 < scene.child.show_at - monotonic() <= SHOWN_AFTER_SECONDS
        assert scene.child.current == batch[job]
        scene.child.shown(batch[job])
        assert scene.child.show_at == float("inf")


def test_a_parent_looks_again_until_a_slow_child_has_begun(scene: Scene) -> None:
    scene.child.assign(a_batch(1))
    scene.receives()
    assert 0 < scene.child.show_at - monotonic() <= SHOWN_AFTER_SECONDS
    scene.works(0)
    assert 0 < scene.child.show_at - monotonic() <= SHOWN_AFTER_SECONDS


def test_a_limit_that_one_job_passed_is_not_the_next_one_s(scene: Scene) -> None:
    scene.child.assign(a_batch())
    scene.receives()
    scene.works(0)
    scene.child._overdue = (scene.child.claims[0].token, "a limit", 0.0)
    assert scene.child.overdue == "a limit"
    scene.works(1)
    assert scene.child.overdue is None


def test_child_gets_logins_of_its_tenants_by_its_name(scene: Scene) -> None:
    batch = a_batch(1)
    scene.child.assign(batch)
    assert scene.child.claims[0].login.conninfo == ""
    assert scene.receives()[0].login.conninfo.endswith(
        f"password=of-this-role-alone application_name={scene.child.pid}"
    )
    assert "of-this-role-alone" not in repr(unlocked(batch[0], 1))
