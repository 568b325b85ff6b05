"""Messages of the pages in gettext catalogues: an application's first, then Turno's.

A folder has `<language>/LC_MESSAGES/messages.po` for each language, compiled to `messages.mo` beside it. Its messages
are names such as `kept`, not English sentences: code finds some of them by a stored reason or an error's class. The
words of handlers have the second place.
"""

from collections.abc import Mapping, Sequence
from gettext import NullTranslations, translation
from pathlib import Path
from typing import Any

from turno.capability import installed
from turno.jobs.handler import JobHandler
from turno.jobs.type_words import ERROR
from turno.web.pages.language import LANGUAGES, Language

Catalogues = Mapping[Language, NullTranslations]

OWN = Path(__file__).parent.parent / "locale"


class HandlerWords(NullTranslations):
    """The words of handlers: `kept monthly_report` replaces `kept` for jobs of the type `monthly_report`."""

    def __init__(self, handlers: Sequence[type[JobHandler[Any]]], language: Language) -> None:
        super().__init__()
        self._said = {
            _message(handler.type, name): said
            for handler in handlers
            for name, said in handler.words.get(language, {}).items()
        }

    def gettext(self, message: str) -> str:
        """Return the text of a message; of a message with a plural the plural."""
        said = self._said.get(message)
        return super().gettext(message) if said is None else said if isinstance(said, str) else said[1]

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """Return the singular or the plural of a message."""
        said = self._said.get(msgid1)
        return super().ngettext(msgid1, msgid2, n) if said is None or isinstance(said, str) else said[n != 1]


def _message(job_type: str, name: str) -> str:
    if name.startswith(ERROR):
        return name
    return f"{'type' if name == 'title' else name} {job_type}"


def catalogues(application: Path | None = None, handlers: Sequence[type[JobHandler[Any]]] = ()) -> Catalogues:
    """Return each language's catalogue: the application's, then the words of handlers, then Turno's.

    Raises FileNotFoundError where the application's folder lacks a language.
    """
    found: dict[Language, NullTranslations] = {language: HandlerWords(handlers, language) for language in LANGUAGES}
    for language, catalogue in found.items():
        for folder in (*filter(None, (one.folder("locale") for one in installed())), OWN):
            catalogue.add_fallback(translation("messages", folder, [language]))
    if application is None:
        return found
    own = {language: translation("messages", application, [language]) for language in LANGUAGES}
    for language, catalogue in own.items():
        catalogue.add_fallback(found[language])
    return own
