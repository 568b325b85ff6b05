"""Load timestamps and dates beyond Python's range as the nearest ones it has, instead of raising."""

from datetime import UTC, date, datetime
from typing import Any

from psycopg import DataError, adapters
from psycopg.abc import AdaptContext
from psycopg.adapt import AdaptersMap, Buffer, Loader
from psycopg.pq import Format

# A time before the year 1, or minus infinity, becomes the first time; a time after 9999, or infinity, the last.
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class _Bounded(Loader):
    """Loads as psycopg does; a value that psycopg refuses becomes the bound that it exceeds."""

    first: Any
    last: Any

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        usual = adapters.get_loader(oid, Format.TEXT)
        assert usual is not None, "psycopg loads these types"  # noqa: S101
        self._usual = usual(oid, context)

    def load(self, data: Buffer) -> Any:
        """Return the value, or its bound."""
        try:
            return self._usual.load(data)
        except DataError:
            text = bytes(data)
            return self.first if text.startswith(b"-") or text.endswith(b"BC") else self.last


class Moments(_Bounded):
    """Loads timestamptz."""

    first, last = FIRST, LAST


class Days(_Bounded):
    """Loads date."""

    first, last = date.min, date.max


BOUNDED = AdaptersMap(adapters)
BOUNDED.register_loader("timestamptz", Moments)
BOUNDED.register_loader("date", Days)
