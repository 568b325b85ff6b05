"""The declaration of a capability, and the kernel that reads all declarations.

A capability is the folder `turno/capabilities/<name>` with the constant `CAPABILITY` in `capability.py`. Code is named
as `package.module:name` and loaded by the process that needs it: a launched worker imports no Flask and no Click. Found
by folder: `sql/{control,tenant}/{schema,functions}`, and `locale`. Templates belong to the blueprints.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, LiteralString, NamedTuple, TypeVar

from turno.errors import HandlerMisuse, InvalidSettings
from turno.tenancy.rights.matrix import Matrix

HOME = Path(__file__).parent / "capabilities"
LIBRARY = "core"  # the source of everything that is in no capability
ALL_BUT = "all-but-"
Reference = str  # package.module:name
Value = TypeVar("Value")


def load(reference: Reference) -> Any:
    """Return the object of a reference; the working directory is searched after everything that is installed.

    Raises any error of the module, or AttributeError.
    """
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


class Task(NamedTuple):
    """A maintenance task, run every ten seconds: `run(engine, each_tenant) -> TaskReport`.

    `name` is the key of its count in logs and in `turno maintain --once`; `each_tenant` has the settings.
    """

    name: str
    run: Reference


class Delivery(NamedTuple):
    """Messages to outside receivers, sent after the tasks: `prepare(settings) -> run(engine)`, or None: no receiver.

    `name` is the name of its lease: one process of the installation runs it.
    """

    name: str
    prepare: Reference


class Outside(NamedTuple):
    """Rights of a tenant's roles outside of its schema: three functions of `(admin, schema)`.

    `grant` runs at the end of each migration of the schema, in its transaction, and returns whether a right changed;
    `revoke` at the removal of the tenant; `check` yields findings.
    """

    grant: Reference
    revoke: Reference
    check: Reference


class Command(NamedTuple):
    """A Click command and its line in `turno --help`."""

    reference: Reference
    line: str


class Backend(NamedTuple):
    """How jobs of a backend reach its workers.

    `queue` is an implementation of QueueInterface with the arguments of PoolQueue, and `worker` the command that starts
    a worker. That command refuses to start without the settings `needs`; its process opens `sessions` database
    sessions. `program(queues, size) -> Supervisor` is run by `turno work --from-broker` with the secret settings
    `secrets`.
    """

    queue: Reference
    worker: str
    needs: tuple[str, ...] = ()
    sessions: int = 2
    program: Reference = ""
    secrets: tuple[str, ...] = ()


class JobFilter(NamedTuple):
    """A condition on jobs: an option of `turno job` with this `help`, and NAME:VALUE of the API's parameter `filter`.

    The predicates compare with `%(NAME)s`, an array of texts: `api` is about `j.id`, for the API role of a tenant, and
    `operator` about `job_id`, for the operator's login.
    """

    help: str
    api: LiteralString
    operator: LiteralString


class Link(NamedTuple):
    """An entry of a menu: the path, and the phrase of the catalogues that names it."""

    path: str
    phrase: str


# Of the core. The queue of `exec` launches workers, with separate arguments: `turno.wiring.shared:exec_queue`.
BACKENDS = {
    "exec": Backend("turno.queues.exec.launcher:ExecQueue", "turno maintain"),
    "pool": Backend("turno.queues.interface:PoolQueue", "turno work"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One capability. `name` is its folder, its source in ledgers and comments, and its word in TURNO_CAPABILITIES.

    `control` and `tenant` are the rights on its objects in the two kinds of schema; each of its relations is named
    there. A check `(cursor) -> Iterator[Trouble]` reads the troubles of an installation, as an operator; a health
    check is a statement of the web that returns their kinds, at a cost that does not grow with the jobs. `context` has
    the implementations `(job, *arguments) -> Any` of members of `JobContext`, called by `jobs/job_context.py`.
    A job section `(reader, visit, job_id) -> Markup` is a part of the job page, or of the operator's job page; an
    overview section `(operator, visit) -> Markup` of the operator's first page. A job
    attribute is an SQL expression on `j.id`, for the API role of a tenant: API, pages and commands show its value
    unless it is null. `job_links` name routes below /api/jobs/<job_id>/ in the body of a job. `invariants` are queries
    that return violations, for the report of the test kit. `routes` are the blueprints: Routes of the API, and Pages.
    `backends` are values of QUEUE_BACKEND. A submission is a `turno.web.api.submit:SubmissionPart`. A mark `(operator,
    companies=, since=, limit=)` reads changes for the charts. `live` is `(settings, logins, root) ->
    turno.web.services:Live`.
    """

    name: str
    control: Matrix = field(default_factory=Matrix)
    tenant: Matrix = field(default_factory=Matrix)
    outside: Outside | None = None
    tasks: tuple[Task, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    submissions: tuple[Reference, ...] = ()
    # Statements of the engine with the facts about handlers (jsonb) and the time without announcements (interval).
    announcements: tuple[LiteralString, ...] = ()
    tracer: Reference = ""  # () -> Tracer, which records spans of jobs: see `turno/tracing.py`
    log_lines: Reference = ""  # () -> logging.Handler | None, which also receives the log lines of each process
    checks: tuple[Reference, ...] = ()
    health_checks: tuple[LiteralString, ...] = ()
    context: Mapping[str, Reference] = field(default_factory=dict)
    names: Mapping[str, Reference] = field(default_factory=dict)  # implementations of public names of `turno`
    job_sections: tuple[Reference, ...] = ()
    operator_job_sections: tuple[Reference, ...] = ()
    overview_sections: tuple[Reference, ...] = ()
    job_links: tuple[str, ...] = ()
    job_attributes: Mapping[LiteralString, LiteralString] = field(default_factory=dict)
    job_filters: Mapping[str, JobFilter] = field(default_factory=dict)
    invariants: Mapping[str, LiteralString] = field(default_factory=dict)
    commands: Mapping[str, Command] = field(default_factory=dict)
    routes: tuple[Reference, ...] = ()
    menu: tuple[Link, ...] = ()
    operator_menu: tuple[Link, ...] = ()
    backends: Mapping[str, Backend] = field(default_factory=dict)
    chart_marks: tuple[Reference, ...] = ()
    live: Reference = ""

    def folder(self, path: str) -> Path | None:
        """Return a folder of this capability, or None if it has none."""
        folder = HOME / self.name / path
        return folder if folder.is_dir() else None


@cache
def installed() -> tuple[Capability, ...]:
    """Return the installed capabilities, by name: SQL and rights follow them."""
    names = sorted(file.parent.name for file in HOME.glob("*/capability.py"))
    capabilities = tuple(import_module(f"turno.capabilities.{name}.capability").CAPABILITY for name in names)
    if wrong := [name for name, capability in zip(names, capabilities, strict=True) if capability.name != name]:
        raise InvalidSettings([f"turno/capabilities/{wrong[0]}/capability.py declares another name; rename the folder"])
    return capabilities


def enabled(switch: str) -> tuple[Capability, ...]:
    """Return the capabilities with their tasks, commands, routes and pages on; `switch` is TURNO_CAPABILITIES."""
    known = {capability.name: capability for capability in installed()}
    off = set(filter(None, switch.removeprefix(ALL_BUT).split(",")))
    if off - known.keys() or not (switch.startswith(ALL_BUT) or not switch):
        names = ", ".join(known) or "none"
        raise InvalidSettings(
            [f"TURNO_CAPABILITIES={switch[:60]!r}: expected {ALL_BUT}NAME,NAME with names of: {names}"]
        )
    return tuple(capability for name, capability in known.items() if name not in off)


def backends(switch: str = "") -> dict[str, Backend]:
    """Return the backends of the core and of the enabled capabilities, by name."""
    return merged("backend", [BACKENDS, *(capability.backends for capability in enabled(switch))])


def job_filters(switch: str = "") -> dict[str, JobFilter]:
    """Return the filters of the enabled capabilities, by name."""
    return merged("job filter", (capability.job_filters for capability in enabled(switch)))


def public_name(name: str) -> Any:
    """Return the implementation of a public name of `turno`; raises AttributeError without its capability."""
    for capability in installed():
        if name in capability.names:
            return load(capability.names[name])
    raise AttributeError(f"turno.{name} needs a capability that is not installed; restore its folder in {HOME}")


@cache
def member(name: str, switch: str) -> Callable[..., Any]:
    """Return the implementation of a member of `JobContext`; raises HandlerMisuse without its capability."""
    for capability in installed():
        if name in capability.context:
            if capability not in enabled(switch):
                raise HandlerMisuse(
                    f"job.{name} needs the capability {capability.name}; remove it from TURNO_CAPABILITIES={switch}"
                )
            implementation: Callable[..., Any] = load(capability.context[name])
            return implementation
    raise HandlerMisuse(f"job.{name} needs a capability that is not installed; restore its folder in {HOME}")


def left_behind(source: str | None) -> bool:
    """Return whether this source, from an object's comment, is a capability without a folder."""
    return source is not None and source != LIBRARY and source not in {capability.name for capability in installed()}


def merged(kind: str, tables: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    """Return the entries of all tables in one; raises InvalidSettings for a name that two of them have."""
    whole: dict[str, Value] = {}
    for table in tables:
        if twice := sorted(whole.keys() & table.keys()):
            raise InvalidSettings([f"the {kind} {twice[0]} is declared twice; rename it in one turno/capabilities/*/"])
        whole |= table
    return whole
