"""Reasons to refuse a file or a line, in the user's language, with line and column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Language = Literal["es", "en"]
LONGEST_VALUE = 40

_WORDS: Mapping[str, tuple[str, str]] = {
    # Of a file.
    "too many lines": (
        "El archivo tiene más de {most} líneas: partilo en varios.",
        "The file has more than {most} lines: split it.",
    ),
    "empty": ("El archivo no tiene ninguna línea debajo del encabezado.", "The file has no line below its headers."),
    "no text": (
        "El archivo tiene bytes nulos: no es un texto CSV. Guardalo como CSV o como libro XLSX.",
        "The file has NUL bytes, so it is no CSV text. Save it as CSV or as an XLSX workbook.",
    ),
    "encoding": (
        "El texto no está en UTF-8, UTF-16 ni Windows-1252: guardalo como CSV UTF-8.",
        "The text is in none of UTF-8, UTF-16 and Windows-1252: save it as CSV UTF-8.",
    ),
    "broken line": (
        "La línea {line} no se puede leer como CSV: unas comillas no cierran, o una celda es larguísima.",
        "Line {line} cannot be read as CSV: a quotation mark is not closed, or a cell is far too long.",
    ),
    "old workbook": (
        "Es un libro de Excel anterior a 2007 o con contraseña: guardalo como XLSX sin contraseña, o como CSV.",
        "It is a workbook older than Excel 2007, or it has a password: save it as XLSX without one, or as CSV.",
    ),
    "broken workbook": (
        "El archivo empieza como un libro XLSX, pero no se puede leer: abrilo y guardalo de nuevo.",
        "The file begins like an XLSX workbook but cannot be read: open it and save it again.",
    ),
    "too large inside": (
        "Desplegado, el libro ocupa más de {most} MB: no se abre. Guardá solo la hoja que hace falta.",
        "Unpacked, the workbook has more than {most} MB, and is not opened. Save only the sheet that is needed.",
    ),
    "too many cells": (
        "El libro tiene más de {most} celdas o textos: guardá solo la hoja y las filas que hacen falta.",
        "The workbook has more than {most} cells or texts: save only the sheet and the rows that are needed.",
    ),
    "memory": (
        "La importación del archivo necesita más de {most} MB de memoria: partilo en varios.",
        "The import of the file takes more than {most} MB of memory: split it.",
    ),
    "foreign parts": (
        "El libro contiene «{value}», que ningún libro necesita: no se abre.",
        "The workbook contains {value!r}, which no workbook needs: it is not opened.",
    ),
    "wide sheet": (
        "La hoja tiene algo en {value}, fuera de las primeras {columns} columnas y {most} filas: borrá lo que sobra.",
        "The sheet has a cell at {value}, beyond the first {columns} columns and {most} rows: clear the rest.",
    ),
    "missing columns": (
        "Faltan las columnas {value}. El encabezado dice: {header}.",
        "The columns {value} are missing. The headers are: {header}.",
    ),
    "unknown columns": (
        "No se conocen las columnas {value}. Se esperan: {expected}.",
        "The columns {value} are not known. Expected are: {expected}.",
    ),
    "column twice": ("La columna {value} está dos veces.", "The column {value} is there twice."),
    "two decimal marks": (
        "La línea {line} usa coma decimal y la línea {other} usa punto: dejá uno solo.",
        "Line {line} has a decimal comma and line {other} a decimal point: use one of them.",
    ),
    "unclear decimal mark": (
        "No se sabe si «{value}» (línea {line}) son miles o decimales: elegí coma o punto decimal al importar.",
        "Whether {value!r} (line {line}) has thousands or decimals is not clear: choose the decimal mark.",
    ),
    # Of a line.
    "line": ("línea {line}, columna {column}: {reason}", "line {line}, column {column}: {reason}"),
    "missing": ("falta el valor", "there is no value"),
    "formula": (
        "la celda es una fórmula: pegá su valor",
        "the cell is a formula: paste its value",
    ),
    "too long": ("«{value}» tiene más de {most} caracteres", "{value!r} has more than {most} characters"),
    "control": ("el texto tiene caracteres de control", "the text has control characters"),
    "whole": ("«{value}» no es un número entero", "{value!r} is no whole number"),
    "zero": ("la cantidad es cero", "the quantity is zero"),
    "number": ("«{value}» no es un número", "{value!r} is no number"),
    "places": ("«{value}» tiene más de {most} decimales", "{value!r} has more than {most} decimals"),
    "range": ("«{value}» no está entre {low} y {high}", "{value!r} is not from {low} to {high}"),
    "date": (
        "«{value}» no es una fecha: escribila como 31/12/2026 o 2026-12-31",
        "{value!r} is no date: write it as 31/12/2026 or 2026-12-31",
    ),
    "choice": ("«{value}» no es ninguno de: {expected}", "{value!r} is not one of: {expected}"),
    "cells": ("hay más celdas que columnas", "there are more cells than columns"),
    "twice": ("«{value}» ya está en la línea {other}", "{value!r} is on line {other} already"),
    "apart": (
        "las líneas del pedido {value} no están juntas: sigue en la línea {other}",
        "the lines of order {value} are not consecutive: it continues at line {other}",
    ),
    "differs": ("«{value}» no es lo que dice la línea {other}", "{value!r} differs from line {other}"),
    "there already": ("el pedido {value} ya estaba cargado", "order {value} is there already"),
    "no customer": ("no existe el cliente {value}: importalo antes", "there is no customer {value}: import it first"),
    "no product": ("no existe el producto {value}: importalo antes", "there is no product {value}: import it first"),
}


def say(code: str, language: Language, /, **values: object) -> str:
    """Return the words of a refusal."""
    spanish, english = _WORDS[code]
    return (spanish if language == "es" else english).format_map(values)


class FileRefused(Exception):
    """The whole file is refused; `code` is the reason."""

    def __init__(self, code: str, /, **values: object) -> None:
        super().__init__(code)
        self.code = code
        self.values = values

    def message(self, language: Language) -> str:
        """Return the reason in this language."""
        return say(self.code, language, **self.values)


@dataclass(frozen=True, slots=True)
class Problem:
    """The problem of one cell."""

    line: int
    column: str
    code: str
    values: Mapping[str, object] = field(default_factory=dict)

    def message(self, language: Language) -> str:
        """Return the line, the column and the reason in this language."""
        reason = say(self.code, language, **self.values)
        return say("line", language, line=self.line, column=self.column, reason=reason)


class Wrong(Exception):
    """A cell's value does not fit its column; the caller knows the cell."""

    def __init__(self, code: str, /, **values: object) -> None:
        super().__init__(code)
        self.code = code
        self.values = values


class LineRefused(Exception):
    """One line, or one order's lines, is not imported; the message names each cell."""

    def __init__(self, problems: Sequence[Problem], language: Language) -> None:
        super().__init__("; ".join(problem.message(language) for problem in problems[:10]))


class WrongLine(LineRefused):
    """The file has to be corrected."""


class MissingReference(LineRefused):
    """The line is imported once the customer or product that it names exists."""


def refusal(problems: Sequence[Problem], language: Language) -> LineRefused:
    """Return the refusal of a line with these problems."""
    missing = all(problem.code in ("no customer", "no product") for problem in problems)
    return (MissingReference if missing else WrongLine)(problems, language)


def short(value: object) -> str:
    """Return a value for a message: cut, and on one line."""
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
