"""Several statements as one message to the server: one network round trip for all."""

from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Any, LiteralString, TypeAlias

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

# Parameters are $1, $2, … in the text: never part of it, as a text may end up in the server's log.
Statement: TypeAlias = tuple[LiteralString, Sequence[object]]


class Pipeline:
    """Collects statements, sends them, and holds their answers by the number that `add` returned.

    A refused statement stops the others of its unit. Each unit is a transaction, unless BEGIN or COMMIT divide it.
    """

    def __init__(self, session: psycopg.Connection[Any]) -> None:
        self.session = session
        self._writer = Transformer(session)
        self._messages: list[tuple[Any, ...]] = []
        self._ends: list[int] = []  # of the units but the last
        self._answers: list[PGresult] = []

    def add(self, text: LiteralString, parameters: Sequence[object] = ()) -> int:
        """Add a statement; return the number of its answer."""
        values = self._writer.dump_sequence(parameters, [PyFormat.AUTO] * len(parameters))
        self._messages.append((text.encode(), values, self._writer.types, self._writer.formats))
        return len(self) - 1

    def __len__(self) -> int:
        return len(self._messages)

    def end_unit(self) -> None:
        """Begin another unit."""
        self._ends.append(len(self))

    def send(self) -> None:
        """Send all statements and read their answers; raises psycopg.OperationalError if the session breaks."""
        pgconn = self.session.pgconn
        pgconn.enter_pipeline_mode()
        messages = iter(self._messages)
        for unit in self.units:
            for message in islice(messages, unit):
                pgconn.send_query_params(*message)
            pgconn.pipeline_sync()
        self._answers = self.session.wait(_answers(pgconn, self.units))
        pgconn.exit_pipeline_mode()

    @property
    def units(self) -> list[int]:
        """The number of statements in each unit."""
        ends = sorted({0, *self._ends, len(self)})
        return [end - begin for begin, end in pairwise(ends)]

    def raise_refusal(self, end: int | None = None) -> None:
        """Raise the error of the first refused statement among those before `end`."""
        for answer in self._answers[:end]:
            if answer.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(answer, self.session.info.encoding)

    def rows(self, number: int) -> list[tuple[Any, ...]]:
        """Return the rows of an answer."""
        reader = Transformer(self.session)
        reader.set_pgresult(self._answers[number])
        return reader.load_rows(0, self._answers[number].ntuples, tuple)

    def text(self, number: int) -> str:
        """Return the only value of an answer as the server's text, without the session's loaders."""
        value = self._answers[number].get_value(0, 0)
        assert value is not None, "the statement always has a value"  # noqa: S101
        return value.decode()


def _answers(pgconn: PGconn, units: Sequence[int]) -> PQGen[list[PGresult]]:
    yield from send(pgconn)
    answers: list[PGresult] = []
    for unit in units:
        for _ in range(unit):
            answers += yield from fetch_many(pgconn)
        yield from fetch_many(pgconn)  # the end of the unit
    return answers
