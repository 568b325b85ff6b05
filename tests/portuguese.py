"""Catalogues of an application that adds Portuguese to English and Spanish."""

from __future__ import annotations

import shutil
from io import BytesIO
from typing import TYPE_CHECKING

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from handlers import LOCALE

if TYPE_CHECKING:
    from pathlib import Path

MESSAGES = """
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\nPlural-Forms: nplurals=2; plural=(n > 1);\\n"

msgid "language"
msgstr "Português"

msgid "separators"
msgstr ".,"

msgid "date"
msgstr "{day} de {month} de {year}"

msgid "months"
msgstr "jan. fev. mar. abr. mai. jun. jul. ago. set. out. nov. dez."

msgid "home"
msgstr "Faturamento"

msgid "notice replayed"
msgstr "Isto já tinha começado; nada foi repetido."

msgid "orders count"
msgid_plural "orders count"
msgstr[0] "{n} pedido"
msgstr[1] "{n} pedidos"

msgid "type batch_invoicing"
msgstr "Faturas"

msgid "cancelled"
msgstr "Cancelado"

msgid "mail ended"
msgstr "Seu trabalho em {tenant} terminou em {moment} UTC."
"""


def with_portuguese(folder: Path) -> Path:
    """Return a copy of the example's catalogues in `folder`, with Portuguese added."""
    copy = folder / "locale"
    shutil.copytree(LOCALE, copy)
    messages = copy / "pt" / "LC_MESSAGES" / "messages.mo"
    messages.parent.mkdir(parents=True)
    with messages.open("wb") as file:
        write_mo(file, read_po(BytesIO(MESSAGES.encode())))
    return copy
