"""CSRF: refuse requests that another site makes a browser send with our cookie."""

from urllib.parse import urlsplit

from flask import Request

from turno.web.http.problems import Kind, Problem

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def require_same_origin(request: Request) -> None:
    """Raise Problem 403 unless a page of this very origin sends the request.

    A browser says so in Sec-Fetch-Site, which no page can forge; an older one, and any over plain HTTP, says
    it in Origin alone. Who says neither is refused.
    """
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    own = site == "same-origin" if site else origin is not None and urlsplit(origin).netloc == request.host
    if not own:
        raise Problem(
            Kind.FOREIGN_SITE,
            "With the pages' cookie only the pages themselves may change anything; other programs send a token.",
        )
