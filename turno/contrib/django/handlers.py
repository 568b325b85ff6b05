"""The handlers of a Django project, as the value of `handlers` in [tool.turno]."""

from importlib import import_module

import django
from django.apps import apps
from django.utils.module_loading import module_has_submodule

from turno.jobs.handler import Handler


def discover() -> list[Handler]:
    """Load Django, and return the classes of the list `HANDLERS` in the module `jobs` of each installed app."""
    if not apps.ready:  # in a request, another setup would reset the prefix of all URLs
        django.setup()
    modules = [f"{app.name}.jobs" for app in apps.get_app_configs() if module_has_submodule(app.module, "jobs")]
    return [handler for module in modules for handler in getattr(import_module(module), "HANDLERS", ())]
