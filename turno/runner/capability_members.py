"""The members of `JobContext` that capabilities implement."""

from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import Any, cast

from turno.capability import HOME, enabled, installed
from turno.errors import HandlerMisuse
from turno.jobs.handler import JobHandler
from turno.jobs.job_context import Effect, Files, Finding, Part
from turno.jobs.new_job import Published, payload_of
from turno.named import load
from turno.settings import Settings


class CapabilityMembers:
    """A base of contexts: it calls the declared implementations, each loaded at its first use in a process."""

    settings: Settings

    @property
    def files(self) -> Files:
        """The tenant's files: uploads to read, and files to write within the job's transaction."""
        files: Files = member("files", self.settings.capabilities)(self)
        return files

    def once(
        self,
        key: str,
        call: Callable[[Effect], Any],
        reconcile: Callable[[Effect], Finding | Awaitable[Finding]] | None = None,
        *,
        idempotent: bool = False,
    ) -> Any:
        """Cause an outside effect once in this tenant; returns the answer of its call."""
        return member("once", self.settings.capabilities)(self, key, call, reconcile, idempotent=idempotent)

    def publish(self, event: str, data: Any = None, /, *, key: str | None = None, **fields: Any) -> Published:
        """Publish an event, committed with the work of the job."""
        publish = member("publish", self.settings.capabilities)
        published: Published = publish(self, event, payload_of(data, fields), key=key)
        return published

    def fan_out(
        self,
        job_type: type[JobHandler[Any]],
        payloads: Iterable[Any],
        *,
        stop_on_failure: bool = False,
        total: int | None = None,
    ) -> list[Part]:
        """Split this job into parts; returns how they ended."""
        split = member("fan_out", self.settings.capabilities)
        parts: list[Part] = split(self, job_type, payloads, stops=stop_on_failure, total=total)
        return parts


@cache
def member(name: str, switch: str) -> Callable[..., Any]:
    """Return the implementation of a member of `JobContext`; raises HandlerMisuse without its capability."""
    for one in installed():
        if name in one.context:
            if one not in enabled(switch):
                raise HandlerMisuse(
                    f"job.{name} needs the capability {one.name}; remove it from TURNO_CAPABILITIES={switch}"
                )
            return cast("Callable[..., Any]", load(one.context[name]))
    raise HandlerMisuse(f"job.{name} needs a capability that is not installed; restore its folder in {HOME}")
