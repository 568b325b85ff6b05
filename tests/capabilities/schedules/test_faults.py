"""Hosts that sweep at once and are killed in the middle of it make one job for each moment, and miss none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from turno.store.engine.announcements import Announcement
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation

SCHEDULES = 300
FILL = """
INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)
SELECT 'n' || n, 'batch_invoicing', '{"order_ids": [1]}', 1, 'ana', 60, 'UTC', 0, 'once',
       date_trunc('minute', clock_timestamp()) - interval '1 minute'
FROM generate_series(1, %s) AS n
"""
# A host's sweep, without the lease that usually admits a single host.
SWEEP = """
import os
from turno.environment import read_settings
from turno.capabilities.schedules.firing import fire_due
from turno.maintenance.each_tenant import EachTenant
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import service_session
from turno.wiring.logins import logins_of
logins = logins_of(read_settings())
engine = service_session(logins, logins.engine, application="a host")
link = Engine(lambda: engine)
each_tenant = EachTenant(link)
each_tenant.complete = True
fire_due(link, each_tenant)
"""


def made(example: ExampleInstallation) -> int:
    (row,) = example.rows("SELECT count(*) FROM job_schedule_runs")
    return int(row["count"])


def sweep_and_kill(example: ExampleInstallation, goal: int) -> int:
    """Let two hosts sweep until this number of moments, then kill them; returns how many were still at it."""
    hosts = [
        subprocess.Popen([sys.executable, "-c", SWEEP], env=example.environment, start_new_session=True)
        for _ in range(2)
    ]
    wait_until(lambda: made(example) >= goal or all(host.poll() is not None for host in hosts), within=60, every=0.002)
    at_it = [host for host in hosts if host.poll() is None]
    for host in at_it:
        os.killpg(host.pid, signal.SIGKILL)
    for host in hosts:
        host.wait()
    return len(at_it)


def test_two_hosts_that_are_killed_at_it_fire_each_moment_once(example: ExampleInstallation) -> None:
    example.engine.announce([Announcement("batch_invoicing", 1, "cold", 4)], 20)
    example.rows(FILL, SCHEDULES)
    (first,) = example.rows("SELECT min(next_at) FROM job_schedules")
    killed = 0
    for goal in range(60, SCHEDULES * 2, 90):
        killed += sweep_and_kill(example, goal)
    assert killed >= 2
    done = subprocess.run([sys.executable, "-c", SWEEP], env=example.environment, check=False)
    assert done.returncode == 0
    (result,) = example.rows(
        """
        SELECT count(*) AS runs, count(DISTINCT (r.schedule_id, r.moment)) AS moments, count(j.id) AS jobs,
               count(t.job_id) AS tickets, count(DISTINCT r.schedule_id) AS schedules, min(r.moment) AS first,
               (SELECT count(*) FROM background_jobs) AS all_jobs
        FROM job_schedule_runs r LEFT JOIN background_jobs j ON j.id = r.job_id AND j.run_at = r.moment
        LEFT JOIN turno.tickets t ON t.job_id = r.job_id
        """
    )
    assert result["runs"] == result["moments"] == result["jobs"] == result["tickets"] == result["all_jobs"]
    assert (result["schedules"], result["first"]) == (SCHEDULES, first["min"])
    # From its first moment to its last each schedule has every minute.
    gaps = example.rows(
        "SELECT schedule_id FROM job_schedule_runs GROUP BY schedule_id"
        " HAVING count(*) <> extract(epoch FROM max(moment) - min(moment)) / 60 + 1"
    )
    assert gaps == []
