"""The stub's data, in memory: granted vouchers, and taxpayers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tax_authority.stub.messages import Content

CODE_IS_VALID = timedelta(days=10)
FIRST_CODE = 76_000_000_000_000


@dataclass(frozen=True, slots=True)
class Series:
    """One sequence of numbers: a CUIT's vouchers of one kind at one point of sale."""

    cuit: str
    point_of_sale: int
    kind: int


@dataclass(frozen=True, slots=True)
class Granted:
    """An authorised voucher, and the fields of its request."""

    series: Series
    number: int
    issued_on: date
    document_number: str
    total: str
    cae: str
    observed: bool
    fields: list[tuple[str, Content | None]] = field(repr=False)

    @property
    def expires_on(self) -> date:
        """Until when the code may be used."""
        return self.issued_on + CODE_IS_VALID

    def as_json(self) -> dict[str, Any]:
        """Return the fields for the page."""
        shown = {"number": self.number, "issued_on": self.issued_on.isoformat(), "total": self.total, "cae": self.cae}
        return asdict(self.series) | shown | {"document_number": self.document_number}


@dataclass(frozen=True, slots=True)
class Taxpayer:
    """Someone in the registry, with the numbers of the taxes that they are registered for (30: IVA, 20: simplified)."""

    cuit: str
    name: str
    taxes: tuple[int, ...] = ()
    company: bool = True


@dataclass(slots=True)
class Books:
    """Vouchers by series and number; the lock is held from a number's check to its grant."""

    lock: Lock = field(default_factory=Lock)
    taxpayers: dict[str, Taxpayer] = field(default_factory=dict)
    _series: dict[Series, dict[int, Granted]] = field(default_factory=dict)
    _codes: int = 0

    @property
    def granted(self) -> list[Granted]:
        """All vouchers that were authorised."""
        with self.lock:
            return [voucher for numbers in self._series.values() for voucher in numbers.values()]

    def register(self, taxpayer: Taxpayer) -> None:
        """Add a taxpayer to the registry; replaces an earlier taxpayer of the CUIT."""
        with self.lock:
            self.taxpayers[taxpayer.cuit] = taxpayer

    def last(self, series: Series) -> Granted | None:
        """Return the last voucher of a series."""
        numbers = self._series.get(series)
        return numbers[max(numbers)] if numbers else None

    def find(self, series: Series, number: int) -> Granted | None:
        """Return the voucher of a number."""
        return self._series.get(series, {}).get(number)

    def next_code(self) -> str:
        """Return a code that was not given yet."""
        self._codes += 1
        return str(FIRST_CODE + self._codes)

    def keep(self, voucher: Granted) -> None:
        """Write a voucher down; its number must be new."""
        numbers = self._series.setdefault(voucher.series, {})
        if voucher.number in numbers:
            raise ValueError(f"{voucher.series} {voucher.number} is granted already")
        numbers[voucher.number] = voucher
