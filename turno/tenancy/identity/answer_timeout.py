"""A connection with a time limit for each answer: it notices a server that accepts data and never answers."""

from time import monotonic

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.adapt import AdaptersMap
from psycopg.rows import TupleRow

from turno.tenancy.identity.loaders import BOUNDED

LOOK_EVERY = 0.1  # seconds between two looks at the clock while waiting
# A little more than the services' statement timeout: a server that lives would have answered by then.
ANSWER_WITHIN = 35.0


class AnswerOverdue(psycopg.OperationalError):
    """The server did not answer in time; its side of the network still acknowledges what is sent."""


class TimeoutConnection(psycopg.Connection[TupleRow]):
    """Raises AnswerOverdue, and is closed, when the server leaves a question open for `answer_within` seconds.

    TCP's own timers cannot see a server, a proxy or a pooler that was stopped: the kernel answers for it.
    """

    answer_within = ANSWER_WITHIN
    _bounded: AdaptersMap | None = None

    @property
    def adapters(self) -> AdaptersMap:
        """Return how values are loaded: times that Python has not as the bounds of those it has."""
        if self._bounded is None:
            self._bounded = AdaptersMap(BOUNDED)
        return self._bounded

    def wait(self, gen: PQGen[RV], interval: float = LOOK_EVERY, timeout: float | None = None) -> RV:
        """Wait as psycopg does, and raise AnswerOverdue after `answer_within` seconds."""
        return super().wait(self._until_answered(gen), interval, timeout)

    def _until_answered(self, gen: PQGen[RV]) -> PQGen[RV]:
        end = monotonic() + self.answer_within
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and monotonic() > end:
                    self.close()
                    raise AnswerOverdue(f"the server did not answer within {self.answer_within:g} s")
                wanted = gen.send(ready)
        except StopIteration as done:
            answer: RV = done.value
            return answer
