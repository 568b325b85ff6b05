"""Clients that continue to submit over HTTP during faults behind the web."""

from __future__ import annotations

from itertools import count
from uuid import UUID

from cli.demo.web import DemoWeb
from tests.installation import ExampleInstallation
from tests.repeating import Repeating
from turno.client import ClientError
from turno.testing.wait import wait_until


class Posting(Repeating):
    """Posts jobs one after another from `with` to its end, and keeps every answer."""

    pause = 0.15  # seconds

    def __init__(self, example: ExampleInstallation, web: DemoWeb) -> None:
        super().__init__()
        self.answers: list[int] = []
        self.jobs: list[UUID] = []
        self._client = example.client(web)
        self._orders = example.order_ids()
        self._numbers = count()

    def goes_on(self, more: int = 20) -> bool:
        target = len(self.answers) + more
        return wait_until(lambda: len(self.answers) >= target, within=60) and set(self.answers) == {202}

    def once(self) -> None:
        # Every order is billed by the first job that names it: the later ones find it billed.
        orders = [self._orders[next(self._numbers) % len(self._orders)]]
        try:
            self.jobs.append(UUID(self._client.submit("batch_invoicing", {"order_ids": orders}).id))
            self.answers.append(202)
        except ClientError as error:
            self.answers.append(error.status or 0)
