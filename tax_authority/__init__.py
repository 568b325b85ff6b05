"""Ask the tax authority, over its own interfaces: its registry of taxpayers, and to authorise vouchers.

Knows nothing of jobs. The first call imports the XML reader, not this package.
"""

from tax_authority.client import TaxAuthority
from tax_authority.errors import (
    AuthorityBusy,
    AuthorityRefused,
    AuthorityUnclear,
    AuthorityUnreachable,
    NotNext,
    NotThere,
    TicketHeldElsewhere,
)
from tax_authority.tickets import Ticket, TicketStore
from tax_authority.values import (
    Addresses,
    Authorisation,
    Credentials,
    Taxpayer,
    VatLine,
    Voucher,
    VoucherId,
)

__all__ = [
    "Addresses",
    "Authorisation",
    "AuthorityBusy",
    "AuthorityRefused",
    "AuthorityUnclear",
    "AuthorityUnreachable",
    "Credentials",
    "NotNext",
    "NotThere",
    "TaxAuthority",
    "Taxpayer",
    "Ticket",
    "TicketHeldElsewhere",
    "TicketStore",
    "VatLine",
    "Voucher",
    "VoucherId",
]
