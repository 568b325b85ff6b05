"""Which addresses may be told of jobs' ends."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

LONGEST_URL = 2000
LONGEST_MAIL_ADDRESS = 254
MAILTO = "mailto:"
# Without what a header or a list of recipients could be made of; quoted names are refused, too.
_MAIL_ADDRESS = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[a-z0-9-]+(\.[a-z0-9-]+)*", re.ASCII | re.IGNORECASE)


def url_problem(url: str, hosts: Sequence[str], *, private: bool) -> str | None:
    """Return what is wrong with an address, None if it may be called; `private` lets http through, too.

    A host such as *.partner.example stands for those below partner.example.
    """
    if not hosts:
        return "is not taken here: CALLBACK_HOSTS names no host"
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return f"must be an address of at most {LONGEST_URL} printable ASCII characters"
    try:
        place = urlsplit(url)
        port = place.port
    except ValueError:
        return "must be an address such as https://hooks.example/turno"
    if place.scheme not in ({"https", "http"} if private else {"https"}) or not place.hostname or port == 0:
        return "must be an address such as https://hooks.example/turno"
    if place.username is not None or place.fragment:
        return "must have neither a user nor a fragment"
    if not any(_is(place.hostname, host) for host in hosts):
        return "leads to a host that CALLBACK_HOSTS does not name"
    return None


def is_mail_address(text: str) -> bool:
    """Say whether a mail may be sent there."""
    return len(text) <= LONGEST_MAIL_ADDRESS and _MAIL_ADDRESS.fullmatch(text) is not None


def _is(host: str, known: str) -> bool:
    return host.endswith(known[1:]) if known.startswith("*.") else host == known
