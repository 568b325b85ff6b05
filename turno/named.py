"""Import the object that a setting names as `package.module:name`."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def load(place: str) -> Any:
    """Return the object at this place; the working directory is looked in after everything that is installed.

    Raises any error of the module, or AttributeError.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
