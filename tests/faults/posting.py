"""Clients that continue to submit over HTTP during faults behind the web."""

from __future__ import annotations

import http.client
import json
from itertools import count
from uuid import UUID

from cli.demo.web import DemoWeb
from tests.installation import ExampleInstallation
from tests.repeating import Repeating
from turno.commands.token import development_token
from turno.testing.wait import wait_until


class Posting(Repeating):
    """Posts jobs one after another from `with` to its end, and keeps every answer."""

    pause = 0.05

    def __init__(self, example: ExampleInstallation, web: DemoWeb) -> None:
        super().__init__()
        self.answers: list[int] = []
        self.jobs: list[UUID] = []
        self._web = web
        token = development_token(example.settings, user="ana", tenants=["suc0001"])
        self._headers = {
            "Authorization": f"Bearer {token}", "X-Schema": "suc0001", "Content-Type": "application/json",
        }  # fmt: skip
        self._orders = example.order_ids()
        self._numbers = count()

    def goes_on(self, more: int = 30) -> bool:
        target = len(self.answers) + more
        return wait_until(lambda: len(self.answers) >= target, within=60) and set(self.answers) == {202}

    def once(self) -> None:
        # Every order is billed by the first job that names it: the later ones find it billed.
        body = {"payload": {"order_ids": [self._orders[next(self._numbers) % len(self._orders)]]}}
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
