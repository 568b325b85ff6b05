"""What pages say, by gettext: Turno's catalogues, and those of an application before them.

A folder has `<language>/LC_MESSAGES/messages.po` for each language, compiled to `messages.mo` beside it. Its messages
are names such as `kept`, not English sentences: code looks some of them up by what is stored, such as a reason or an
error's class. A message for a job's type, `kept batch_invoicing`, stands in place of `kept` for such jobs.
"""

from collections.abc import Mapping
from gettext import NullTranslations, translation
from pathlib import Path

from turno.web.pages.language import LANGUAGES, Language

Catalogues = Mapping[Language, NullTranslations]

OWN = Path(__file__).parent.parent / "locale"


def catalogues(application: Path | None = None) -> Catalogues:
    """Return each language's catalogue; what the application's lacks is looked up in Turno's.

    Raises FileNotFoundError where the application's folder lacks a language.
    """
    found = {language: translation("messages", OWN, [language]) for language in LANGUAGES}
    if application is None:
        return found
    own = {language: translation("messages", application, [language]) for language in LANGUAGES}
    for language, catalogue in own.items():
        catalogue.add_fallback(found[language])
    return own
