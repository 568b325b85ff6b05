"""Several statements, each with its parameters, as one message to the server: one network round trip for all."""

from collections.abc import Iterable, Sequence
from typing import Any, LiteralString, TypeAlias

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

Session = psycopg.Connection[Any]

# Parameters are $1, $2, … in the text: never part of it, as a text may end up in the server's log.
Statement: TypeAlias = tuple[LiteralString, Sequence[object]]


def run_pipeline(session: Session, *transactions: Sequence[Statement]) -> list[PGresult]:
    """Return the answer to each statement; after the first that is refused, no other of its transaction is run.

    Each of `transactions` is one, unless a BEGIN or a COMMIT in it says otherwise. A refusal is in its answer, see
    `raise_first_error`. Raises psycopg.OperationalError if the session breaks.
    """
    pgconn, writer = session.pgconn, Transformer(session)
    units: list[list[tuple[Any, ...]]] = []
    for unit in filter(None, transactions):
        units.append([])
        for text, parameters in unit:
            values = writer.dump_sequence(parameters, [PyFormat.AUTO] * len(parameters))
            units[-1].append((text.encode(), values, writer.types, writer.formats))
    pgconn.enter_pipeline_mode()
    for unit in units:
        for message in unit:
            pgconn.send_query_params(*message)
        pgconn.pipeline_sync()
    answers = session.wait(_answers(pgconn, [len(unit) for unit in units]))
    pgconn.exit_pipeline_mode()
    return answers


def _answers(pgconn: psycopg.pq.abc.PGconn, units: Sequence[int]) -> PQGen[list[PGresult]]:
    yield from send(pgconn)
    answers = []
    for expected in units:
        for _ in range(expected):
            answers += yield from fetch_many(pgconn)
        yield from fetch_many(pgconn)  # the end of the unit
    return answers


def raise_first_error(session: Session, answers: Iterable[PGresult]) -> None:
    """Raise the error of the first statement that was refused, if any was."""
    for answer in answers:
        if answer.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(answer, session.info.encoding)


def rows_of(session: Session, answer: PGresult) -> list[tuple[Any, ...]]:
    """Return an answer's rows."""
    reader = Transformer(session)
    reader.set_pgresult(answer)
    return reader.load_rows(0, answer.ntuples, tuple)
