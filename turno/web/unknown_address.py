"""Addresses below Turno's prefix that no route of it knows: refused here, so that the host is not asked."""

from typing import NoReturn

from flask import Blueprint, current_app, request
from flask.sansio.blueprints import BlueprintSetupState
from werkzeug.routing import PathConverter

from turno.web.addresses import at
from turno.web.http.problems import Kind, Problem

UNKNOWN = "turno.unknown"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class AnyPath(PathConverter):
    """Whatever follows, also what begins with a slash."""

    regex = ".*?"
    part_isolating = False


def install_unknown_address(turno: Blueprint) -> None:
    """Have the blueprint answer whatever stands below its prefix; any other route is found before this one."""
    turno.record(_install)


def _install(state: BlueprintSetupState) -> None:
    app, prefix = state.app, state.url_prefix or ""
    app.url_map.converters["turno_any"] = AnyPath
    # By hand, because Flask's own way names the methods, and there is no end to what may be sent.
    app.url_map.add(app.url_rule_class(f"{prefix}/<turno_any:path>", endpoint=UNKNOWN))
    app.view_functions[UNKNOWN] = _unknown


def _unknown(path: str) -> NoReturn:  # noqa: ARG001 - the routing's own argument
    adapter = current_app.create_url_adapter(request)
    allowed = [method for method in METHODS if adapter and adapter.match(method=method)[0] != UNKNOWN]
    if allowed:
        told = "Use one of the methods that the Allow header names."
        raise Problem(Kind.METHOD, told, headers={"Allow": ", ".join(allowed)})
    raise Problem(Kind.NOT_FOUND, f"There is nothing at this address; {at('/openapi.json')} lists what there is.")
