"""People who go on submitting over HTTP, whatever happens behind the web."""

from __future__ import annotations

import http.client
import json
from itertools import count
from threading import Event, Thread
from typing import Self
from uuid import UUID

from cli.demo.web import DemoWeb
from tests.installation import ExampleInstallation
from turno.commands.development_token import development_token
from turno.servers.wait import wait_until


class Posting:
    """Posts one job after the other from `with` to its end, and keeps every answer."""

    def __init__(self, world: ExampleInstallation, web: DemoWeb) -> None:
        self.answers: list[int] = []
        self.jobs: list[UUID] = []
        self._web = web
        token = development_token(world.settings, user="ana", tenants=["suc0001"])
        self._headers = {
            "Authorization": f"Bearer {token}", "X-Schema": "suc0001", "Content-Type": "application/json",
        }  # fmt: skip
        self._orders = world.order_ids()
        self._over = Event()
        self._thread = Thread(target=self._post_on)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def goes_on(self, more: int = 30) -> bool:
        target = len(self.answers) + more
        return wait_until(lambda: len(self.answers) >= target, within=60) and set(self.answers) == {202}

    def _post_on(self) -> None:
        for number in count():
            if self._over.wait(0.05):
                return
            # Every order is billed by the first job that names it: the later ones find it billed.
            order = self._orders[number % len(self._orders)]
            self._post({"payload": {"order_ids": [order]}})

    def _post(self, body: object) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._web.port, timeout=20)
        try:
            connection.request("POST", "/api/jobs/batch_invoicing", json.dumps(body), self._headers)
            answer = connection.getresponse()
            self.answers.append(answer.status)
            if answer.status == http.HTTPStatus.ACCEPTED:
                self.jobs.append(UUID(json.loads(answer.read())["job_id"]))
        except OSError:
            self.answers.append(0)
        finally:
            connection.close()
