"""What a child has not begun can be taken back, and then it does not see it."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from turno.jobs.claim import Batch, Claim
from turno.runner.protocol import FREE, LARGEST_PACKET, LEAVING, MOVED
from turno.runner.stop_request import StopRequest
from turno.tenancy.identity.tenant import HandlerLogin
from turno.worker.child import Child, News

LOGIN = HandlerLogin(slug="suc0001", schema="t_0123456789ab", role="r", epoch=0)


def a_group() -> Batch:
    return (Claim(job_id=uuid4(), token=uuid4(), attempt=1, type="odd", version=1, tenant_id=1, login=LOGIN),)


def unlocked(claim: Claim) -> Claim:
    conninfo = f"dbname=turno user={claim.login.role} password=of-this-role-alone"
    return replace(claim, login=replace(claim.login, conninfo=conninfo))


class Scene:
    """A child of which only its end of the channel lives."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.child = Child(self._process.pid, ours, self.theirs, StopRequest(), unlocked)

    def receives(self) -> Batch:
        claims: Batch = pickle.loads(self.theirs.recv(LARGEST_PACKET, socket.MSG_DONTWAIT))  # noqa: S301
        return claims

    def says(self, word: bytes) -> list[News]:
        self.theirs.send(word)
        return self.child.hear()

    def end(self) -> None:
        self._process.communicate()
        self.child.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.end()


def test_it_runs_what_it_was_given_in_order(scene: Scene) -> None:
    one, two = a_group(), a_group()
    scene.child.assign((one, two))
    assert (scene.receives(), scene.child.claims, scene.child.more) == (one, one, True)
    assert [(news.claims, news.first) for news in scene.says(FREE)] == [(one, True)]
    assert (scene.receives(), scene.child.claims, scene.child.more) == (two, two, False)
    assert not scene.child.idle
    [news] = scene.says(FREE)
    assert news.took is not None
    assert not news.first
    assert scene.child.idle


def test_it_may_take_the_next_before_it_says_that_the_present_is_over(scene: Scene) -> None:
    one, two, three = a_group(), a_group(), a_group()
    scene.child.assign((one, two, three))
    assert [scene.receives(), scene.receives()] == [one, two]
    assert (scene.child.take_back(), scene.child.claims, scene.child.begun) == ((three,), one, (two,))
    assert not scene.child.more
    scene.says(FREE)
    assert (scene.child.claims, scene.child.begun) == (two, ())


def test_what_moved_has_not_ended(scene: Scene) -> None:
    one = a_group()
    scene.child.assign((one,))
    assert scene.says(MOVED) == [News(one)]
    assert scene.child.claims == one


def test_what_it_has_begun_is_not_taken_back(scene: Scene) -> None:
    one, two, three = a_group(), a_group(), a_group()
    scene.child.assign((one, two, three))
    assert scene.receives() == one
    assert scene.child.take_back() == (two, three)
    assert (scene.child.claims, scene.child.more) == (one, False)
    with pytest.raises(BlockingIOError):
        scene.receives()


def test_between_two_jobs_only_one_of_us_gets_the_next(scene: Scene) -> None:
    one, two, three = a_group(), a_group(), a_group()
    scene.child.assign((one, two, three))
    assert scene.receives() == one
    scene.theirs.send(FREE)
    assert scene.receives() == two
    assert scene.child.take_back() == (three,)
    scene.child.hear()
    assert scene.child.claims == two
    assert scene.child.tokens == {two[0].token}


def test_who_leaves_takes_no_more(scene: Scene) -> None:
    one, two = a_group(), a_group()
    scene.child.assign((one, two))
    scene.receives()
    scene.says(LEAVING)
    assert not scene.child.idle
    assert scene.child.take_back() == (two,)
    assert not scene.child.idle


def test_it_is_told_how_to_log_in_as_the_tenants_of_its_jobs(scene: Scene) -> None:
    group = a_group()
    scene.child.assign((group,))
    assert scene.child.claims[0].login.conninfo == ""
    assert scene.receives()[0].login.conninfo == "dbname=turno user=r password=of-this-role-alone"
    assert "of-this-role-alone" not in repr(unlocked(group[0]))
