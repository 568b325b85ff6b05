"""CSRF: refuse requests that another site makes a browser send with what it keeps for us, such as a cookie."""

from urllib.parse import urlsplit

from flask import Request

from turno.web.http.problems import Kind, Problem

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def require_same_origin(request: Request) -> None:
    """Raise Problem 403 unless a page of this very origin sends the request; who does not say it is refused."""
    if not from_own_page(request):
        raise Problem(
            Kind.FOREIGN_SITE,
            "With the pages' cookie only the pages themselves may change anything; other programs send a token.",
        )


def from_own_page(request: Request) -> bool | None:
    """Say whether a page of this very origin sends the request, or one of another site; None if that is not known.

    A browser says so in Sec-Fetch-Site, which no page can forge; an older one, and any over plain HTTP, says it in
    Origin alone, and for a page's own GET in neither.
    """
    if site := request.headers.get("Sec-Fetch-Site"):
        return None if site == "none" else site == "same-origin"
    origin = request.headers.get("Origin")
    return None if origin is None else urlsplit(origin).netloc == request.host
