"""Choose the reader's language: of the query, of the cookie, or the browser's preference."""

from flask import Request, Response

from turno.catalogue import DEFAULT
from turno.web.addresses import at, over_https
from turno.web.services import services

_NAME = "turno-language"
_ONE_YEAR = 31_536_000


def language_of(request: Request) -> str:
    """Return the language of the response; English if there is no catalogue of a requested language."""
    known = services().catalogues
    preferred = request.accept_languages.best_match(known)
    requested = (request.args.get("lang"), request.cookies.get(_NAME), preferred)
    return next((language for language in requested if language and language in known), DEFAULT)


def remember_language(request: Request, response: Response) -> None:
    """Keep a language that was switched to."""
    if request.args.get("lang") in services().catalogues:
        response.set_cookie(
            _NAME,
            language_of(request),
            max_age=_ONE_YEAR,
            path=at("/"),
            httponly=True,
            samesite="Lax",
            secure=over_https(request),
        )
