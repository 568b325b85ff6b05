"""Choose the reader's language: of the query, of the cookie, or the browser's preference."""

from typing import Literal, get_args

from flask import Request, Response

from turno.web.addresses import at, over_https

Language = Literal["en", "es"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

_NAME = "turno-language"
_ONE_YEAR = 31_536_000


def language_of(request: Request) -> Language:
    """Return the language of the answer; English if no wished language is known."""
    preferred = request.accept_languages.best_match(LANGUAGES)
    wishes = (request.args.get("lang"), request.cookies.get(_NAME), preferred)
    return next((language for wish in wishes for language in LANGUAGES if language == wish), "en")


def remember_language(request: Request, response: Response) -> None:
    """Keep a language that was switched to."""
    if request.args.get("lang") in LANGUAGES:
        response.set_cookie(
            _NAME,
            language_of(request),
            max_age=_ONE_YEAR,
            path=at("/"),
            httponly=True,
            samesite="Lax",
            secure=over_https(request),
        )
