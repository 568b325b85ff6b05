"""The pass that makes the jobs of schedules, a little ahead of their moments."""

import logging
from collections.abc import Callable
from datetime import timedelta

from turno.schedules.firing import AHEAD, MOST_MISSED, Firing, firing
from turno.store.engine import schedules
from turno.store.engine.schedules import DueSchedule
from turno.store.engine_link import EngineLink
from turno.store.outage import apart

log = logging.getLogger(__name__)

PAGE = 500  # schedules a statement
PUT_OFF = timedelta(hours=1)  # a schedule whose rule cannot be read here


def fire_due(
    engine: EngineLink, run: Callable[..., int], at_each_step: Callable[[], None] = lambda: None
) -> tuple[int, dict[str, str]]:
    """Make every job that is due, each schedule's in a transaction of its own.

    `run` calls a statement with the engine's connection. Returns how many jobs, and which schedules were refused, why.
    """
    made, troubles, told = 0, dict[str, str](), list[str]()
    after = schedules.BEGINNING
    while page := engine.run(schedules.due, AHEAD, PAGE, after):
        at_each_step()
        for one in page:
            decided, problem = _decide(one)
            if problem:
                told.append(f"{one.slug}/{one.name}: {problem}")
            with apart(troubles, f"{one.slug}/{one.name}"):
                made += run(schedules.fire, one, decided.moments, decided.next_at, decided.missed, problem, MOST_MISSED)
        after = page[-1].position
    if told:
        log.warning("%d schedules left moments out; the first: %s", len(told), told[0], extra={"alert": "schedules"})
    return made, troubles


def _decide(one: DueSchedule) -> tuple[Firing, str | None]:
    from turno.schedules.rule import InvalidRule, rule_of  # noqa: PLC0415 - most workers and sweeps find nothing due

    try:
        rule = rule_of(
            cron=one.cron,
            every=one.every,
            zone=one.zone,
            spread=one.spread,
            missed=one.missed,
            name=one.name,
            tenant=one.slug,
        )
    except InvalidRule as error:
        # It was in order where it was saved: this host has no data of its zone, say.
        return Firing([], one.now + PUT_OFF, 0), f"cannot be read by the host that sweeps: {error}"
    decided = firing(rule, one.missed, next_at=one.now if one.set_back else one.next_at, now=one.now)
    if decided.missed:
        return decided, f"{decided.missed} moments were missed: nobody swept in time"
    return decided, None
