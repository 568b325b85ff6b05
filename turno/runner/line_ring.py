"""The newest log lines of a child, in memory that the child shares with its parent: they survive the child."""

import logging
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
from msgspec.json import encode

from turno.jobs.job import Batch

if TYPE_CHECKING:
    from turno.runner.shared_state import SharedState

CAPACITY = 65_536  # bytes of lines that a child holds until its parent reads them; newer lines overwrite the oldest
HEAD, TAIL = range(2)  # words of eight bytes: how many bytes were ever written, and where the oldest line begins
SIZE = 2 * 8 + CAPACITY
LONGEST = 2000  # characters of a line, an exception's traceback included
_PLAIN = logging.Formatter()
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class Line(NamedTuple):
    """One line: its batch and job, its number within the attempt, its time, and its text."""

    batch: Count
    job: Count
    number: Count
    at: float
    level: str
    logger: str
    text: str


_LINE = msgspec.json.Decoder(Line)


class LineRing:
    """Lines of JSON, written by the child and read by its parent, without a lock and without a message.

    The child moves the tail before it overwrites a byte, and the head after it has written a line. The parent reads
    head and tail, copies, and reads the tail again: it omits bytes that the child may have overwritten meanwhile, and
    the rest of a line that they cut.
    """

    def __init__(self, memory: memoryview) -> None:
        self._words = memory[: 2 * 8].cast("q")
        self._bytes = memory[2 * 8 :]
        self._read = 0  # bytes read by the parent, of all written bytes

    def put(self, line: Line) -> None:
        """In the child: add a line, over the oldest ones if there is no room."""
        packed, words = encode(line) + b"\n", self._words
        head = words[HEAD]
        words[TAIL] = max(words[TAIL], head + len(packed) - CAPACITY)
        at = head % CAPACITY
        first = packed[: CAPACITY - at]
        self._bytes[at : at + len(first)] = first
        self._bytes[: len(packed) - len(first)] = packed[len(first) :]
        words[HEAD] = head + len(packed)

    def take(self) -> list[Line]:
        """In the parent: return the lines that were written since the last time and are still there."""
        head = self._words[HEAD]
        if head == self._read:
            return []
        start = max(self._read, self._words[TAIL])
        self._read = head
        if not 0 <= head - start <= CAPACITY:
            return []
        copied = self._copy(start, head)[: head - start]
        lines = []
        for text in copied[max(0, self._words[TAIL] - start) :].splitlines():
            with suppress(ValueError):  # the rest of a line, or any bytes of the child's
                lines.append(_LINE.decode(text))
        return lines

    def _copy(self, start: int, end: int) -> bytes:
        first, last = start % CAPACITY, (end - 1) % CAPACITY + 1
        if first < last:
            return bytes(self._bytes[first:last])
        return bytes(self._bytes[first:]) + bytes(self._bytes[:last])


class KeptLines(logging.Handler):
    """Puts each line that is logged during the call of a handler into the memory that the child shares.

    No line is kept between two jobs. Of another thread or process, which an earlier job of another tenant may have
    started, only the lines of `job.log` of the present job are kept.
    """

    def __init__(self, shared: "SharedState", level: str) -> None:
        super().__init__(level)
        self._shared = shared
        self._process, self._thread = os.getpid(), threading.get_ident()
        self._batch: Batch = ()
        self._numbers: list[int] = []  # of the last line, by the job's place in the batch

    def next_batch(self, batch: Batch) -> None:
        """Set the job of the following lines."""
        self._batch = batch
        self._numbers = [0] * len(batch)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line, if it is the present job's."""
        at = self._shared.at_work(self._shared.batch)
        if at is None or not self._is_of(at, record):
            return
        try:
            self._numbers[at] += 1
            text = record.getMessage()
            if record.exc_info:
                trace = _PLAIN.formatException(record.exc_info)
                text = f"{text[: LONGEST // 2]}\n{trace[-LONGEST // 2 :]}"
            line = Line(
                self._shared.batch,
                at,
                self._numbers[at],
                record.created,
                record.levelname[:20],
                record.name[:100],
                text[:LONGEST].replace("\0", "\ufffd").encode(errors="replace").decode(),
            )
            self._shared.lines.put(line)
        except Exception:  # noqa: BLE001 - as every handler of logging does: a line must not fail the job
            self.handleError(record)

    def _is_of(self, at: int, record: logging.LogRecord) -> bool:
        if record.process == self._process and record.thread == self._thread:
            return True
        return record.process == self._process and getattr(record, "job_id", None) == str(self._batch[at].job_id)
