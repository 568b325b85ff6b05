"""Load the handlers of this installation from the place in `TURNO_HANDLERS`."""

from collections.abc import Iterable
from typing import Any

from turno.errors import InvalidSettings
from turno.jobs.handler import JobHandler
from turno.jobs.registry import Registry
from turno.named import load

EXPECTED = "a Registry, a list of handler classes, or a function that returns one of them"


def named_handlers(place: str) -> Registry:
    """Return the registry at `package.module:name`; raises InvalidSettings with the problem.

    A Registry, a list of handler classes, or a function that returns a Registry or a list. The working directory is
    looked in, too, after everything that is installed.
    """
    if not place:
        raise InvalidSettings(["TURNO_HANDLERS is not set: name a list of handler classes as package.module:name"])
    try:
        found = load(place)
        if callable(found) and not isinstance(found, type):
            found = found()
        return found if isinstance(found, Registry) else Registry.of(_classes(found))
    except InvalidSettings:
        raise
    except (ModuleNotFoundError, AttributeError) as error:
        what = f"{error}; name {EXPECTED} as package.module:name, on the path or in the working directory"
        raise InvalidSettings([f"TURNO_HANDLERS={place}: {type(error).__name__}: {what}"]) from error
    except Exception as error:  # a module may raise anything
        raise InvalidSettings([f"TURNO_HANDLERS={place}: {type(error).__name__}: {error}"]) from error


def _classes(found: Any) -> list[type[JobHandler[Any]]]:
    classes = list(found) if isinstance(found, Iterable) else [found]
    for one in classes:
        if not (isinstance(one, type) and issubclass(one, JobHandler)):
            raise TypeError(f"expected {EXPECTED}, not {one!r}")
    return classes
