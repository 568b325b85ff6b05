"""The check of URLs that receive webhooks."""

from collections.abc import Sequence
from urllib.parse import urlsplit

LONGEST_URL = 2000
MAILTO, HTTP = "mailto:", "http://"


def reaches_private(url: str, hosts: Sequence[str]) -> bool:
    """Return whether an entry http://HOST allows HTTP and private addresses for this URL."""
    host = urlsplit(url).hostname or ""
    return any(_is(host, entry.removeprefix(HTTP)) for entry in hosts if entry.startswith(HTTP))


def url_problem(url: str, hosts: Sequence[str]) -> str | None:
    """Return the problem of a URL, None if it is allowed; `hosts` is TURNO_WEBHOOK_HOSTS.

    A host such as *.partner.example includes the hosts below partner.example.
    """
    if not hosts:
        return "is not taken here: TURNO_WEBHOOK_HOSTS names no host"
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return f"must be an address of at most {LONGEST_URL} printable ASCII characters"
    try:
        address = urlsplit(url)
        port = address.port
    except ValueError:
        return "must be an address such as https://hooks.example/turno"
    if (
        address.scheme not in ({"https", "http"} if reaches_private(url, hosts) else {"https"})
        or not address.hostname
        or port == 0
    ):
        return "must be an address such as https://hooks.example/turno"
    if address.username is not None or address.fragment:
        return "must have neither a user nor a fragment"
    if not any(_is(address.hostname, entry.removeprefix(HTTP)) for entry in hosts):
        return "leads to a host that TURNO_WEBHOOK_HOSTS does not name"
    return None


def _is(host: str, known: str) -> bool:
    return host.endswith(known[1:]) if known.startswith("*.") else host == known
