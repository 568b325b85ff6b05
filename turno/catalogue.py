"""Messages of pages and mails in gettext catalogues: the application's first, then Turno's.

A folder has `<language>/LC_MESSAGES/messages.po` for each language, compiled to `messages.mo` beside it. Its messages
are names such as `kept`, not English sentences: code finds some of them by a stored reason or an error's class. The
words of handlers have the second place. An application adds a language as a folder of catalogues.
"""

from collections.abc import Mapping, Sequence
from gettext import NullTranslations, find, translation
from pathlib import Path

from turno.capability import installed
from turno.errors import InvalidSettings
from turno.jobs.handler import ERROR, Handler, Registry

DEFAULT = "en"  # the language of messages that the reader's language lacks
OWN = Path(__file__).parent / "web" / "locale"

Catalogues = Mapping[str, NullTranslations]


class HandlerWords(NullTranslations):
    """The words of handlers: `kept monthly_report` replaces `kept` for jobs of the type `monthly_report`."""

    def __init__(self, handlers: Sequence[Handler], language: str) -> None:
        super().__init__()
        self._messages = {
            _message(handler.type, name): text
            for handler in handlers
            for name, text in handler.words.get(language, {}).items()
        }

    def gettext(self, message: str) -> str:
        """Return the text of a message; of a message with a plural the plural."""
        own = self._messages.get(message)
        return super().gettext(message) if own is None else own if isinstance(own, str) else own[1]

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """Return the singular or the plural of a message."""
        own = self._messages.get(msgid1)
        return super().ngettext(msgid1, msgid2, n) if own is None or isinstance(own, str) else own[n != 1]


def _message(job_type: str, name: str) -> str:
    if name.startswith(ERROR):
        return name
    return f"{'type' if name == 'title' else name} {job_type}"


def catalogues(registry: Registry) -> Catalogues:
    """Return the catalogue of each language: of the application, then its handlers, then Turno, then English.

    The languages are English, Spanish, and each language of the application's folder. Raises InvalidSettings if that
    folder has no compiled catalogue of English or of another language that it names.
    """
    folders = [*filter(None, (capability.folder("locale") for capability in installed())), OWN]
    own = _languages(registry.locale) if registry.locale else set()
    if registry.locale and DEFAULT not in own:
        raise InvalidSettings([f"locale: {registry.locale} has no English messages: add the folder {DEFAULT}"])
    chains: dict[str, NullTranslations] = {}
    for language in [DEFAULT, *sorted((_languages(OWN) | own) - {DEFAULT})]:  # English first: the fallback
        chain: list[NullTranslations] = [HandlerWords(registry.handlers, language)]
        if registry.locale and language in own:
            chain.insert(0, _compiled(registry.locale, language))
        chain += [_compiled(folder, language) for folder in folders if language in _languages(folder)]
        if language != DEFAULT:
            chain.append(chains[DEFAULT])
        for catalogue in chain[1:]:
            chain[0].add_fallback(catalogue)
        chains[language] = chain[0]
    return chains


def _languages(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir()}


def _compiled(folder: Path, language: str) -> NullTranslations:
    if find("messages", folder, [language]) is None:
        raise InvalidSettings([f"locale: {folder / language} is not compiled: run `pybabel compile -d {folder}`"])
    return translation("messages", folder, [language])
