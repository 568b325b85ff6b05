"""The allowed texts of settings, and their conversion to values."""

import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import Field, field
from typing import Any, NamedTuple


class Form(NamedTuple):
    """The form of a text, or of each text of a list by comma: `fits` is true for a valid text."""

    fits: Callable[[str], object]
    expected: str


def _is_network(text: str) -> bool:
    from ipaddress import ip_network  # noqa: PLC0415 - a spawned worker has no proxy setting

    with suppress(ValueError):
        return bool(ip_network(text))
    return False


def _is_quiet(text: str) -> bool:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - a spawned worker does not need it

    hours, _, zone = text.partition(" ")
    try:
        ZoneInfo(zone or "UTC")
    except (ValueError, OSError, LookupError):
        return False
    return bool(re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]", hours))


REFERENCE = Form(
    re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*").fullmatch, "package.module:name, such as shop.jobs:HANDLERS"
)
ORIGIN = Form(
    re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?").fullmatch,
    "addresses such as https://erp.example, lower case and without a path",
)
CALLEE = Form(
    re.compile(r"(http://)?(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*").fullmatch,
    "names of hosts, lower case: hooks.example,*.partner.example,http://hooks.internal",
)
ADDRESS = Form(
    re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?(/[\w.~-]+)*", re.ASCII).fullmatch,
    "an address such as https://turno.example or https://erp.example/jobs, without a slash at its end",
)
RECEIVER = Form(
    re.compile(r"(slack\+)?https?://[^/\s]+(/\S*)?|mailto:[^@\s]+@[^@\s]+").fullmatch,
    "https://hooks.example/turno, slack+https://hooks.slack.com/services/… or mailto:ops@example.com, by comma",
)
MAIL_SERVER = Form(
    re.compile(r"smtp(s|\+starttls)?://([^@\s/]+@)?[^@\s/:]+(:[0-9]{1,5})?/?").fullmatch,
    "an address such as smtp+starttls://user:password@mail.example:587",
)
HOURS = Form(_is_quiet, "hours and a time zone, such as 22:00-07:00 America/Argentina/Buenos_Aires")
NETWORK = Form(_is_network, "addresses or networks by comma, such as 10.0.0.5,10.1.0.0/16")


def variable(
    default: Any,
    about: str,
    *,
    within: tuple[float, float] | None = None,
    choices: tuple[str, ...] = (),
    form: Form | None = None,
    secret: bool = False,
) -> Any:
    """Return the field of a setting: its default, its description, and the form of its text."""
    rules = {"about": about, "within": within, "choices": choices, "form": form, "secret": secret}
    return field(default=default, repr=not secret, metadata=rules)


def parsed(setting: Field[Any], text: str) -> Any:
    """Return a variable's text as the setting's type; raises ValueError with the expected form."""
    rules = setting.metadata
    if setting.type is bool:
        return _choice(text.lower(), ("true", "false")) == "true"
    if rules["choices"]:
        return _choice(text, rules["choices"])
    if setting.type is int or setting.type is float:
        return number(setting.type, text, *rules["within"])
    words = (text,) if setting.type is str else tuple(filter(None, map(str.strip, text.split(","))))
    if rules["form"] and not all(map(rules["form"].fits, words)):
        raise ValueError(f"expected {rules['form'].expected}")
    return text if setting.type is str else words


def _choice(text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise ValueError(f"expected one of: {', '.join(allowed)}")
    return text


def number(kind: type[float], text: str, low: float, high: float) -> float:
    """Return the number of a text; raises ValueError with the expected range."""
    value = math.nan
    with suppress(ValueError):
        value = kind(text) if kind is float or (text.isascii() and text.isdecimal()) else value
    if not low <= value <= high:
        raise ValueError(f"expected {'a whole number' if kind is int else 'seconds'} from {low} to {high}")
    return value
