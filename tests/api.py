"""The web application over a real database with two tenants, and a client that speaks to it."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg_pool import ConnectionPool

from tests.cloned_database import cloned_database
from tests.fakes import RecordingQueue
from tests.greetings import build_registry, valid_body
from tests.installation import TABLES
from turno.dispatch.dispatcher import Dispatcher
from turno.settings import Limits, Settings
from turno.tenancy.identity.connections import TimeoutConnection
from turno.tenancy.identity.directory import Directory
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import WEB_TIMEOUTS
from turno.tenancy.schema_migrations.files import packaged
from turno.testing import build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flask import Flask
    from werkzeug.test import TestResponse

    from cli.servers.embedded_postgres import Cluster
    from turno.tenancy.identity.tenant import Tenant

KEY = "a key that only tests know, 32 bytes or more"
SETTINGS = Settings(jwt_key=KEY, master_key=KEY, limits=Limits(pending_jobs_per_user=5, body_bytes=65_536))
MOST_CONNECTIONS = 20


def token(user: str = "ana", *tenants: str, **claims: Any) -> str:
    """Return a valid token; a claim given as None is left out."""
    import jwt  # noqa: PLC0415 - half a second that only tests of the web should pay

    now = int(time.time())
    usual = {"iss": "turno", "aud": "turno", "iat": now, "exp": now + 600, "sub": user, "tenants": list(tenants)}
    return jwt.encode({name: value for name, value in (usual | claims).items() if value is not None}, KEY, "HS256")


@dataclass(frozen=True)
class Caller:
    """One user of one tenant, with or without roles."""

    app: Flask
    tenant: str
    user: str = field(default_factory=lambda: f"user-{uuid.uuid4().hex[:8]}")
    roles: tuple[str, ...] = ()

    @property
    def headers(self) -> dict[str, str]:
        claims = {"roles": list(self.roles)} if self.roles else {}
        return {"Authorization": f"Bearer {token(self.user, self.tenant, **claims)}", "X-Schema": self.tenant}

    def ask(self, method: str, path: str, *, headers: dict[str, str] | None = None, **more: Any) -> TestResponse:
        sent = self.headers | (headers or {})
        return self.app.test_client().open(path, method=method, headers=sent, multithread=True, **more)

    def get(self, path: str, **more: Any) -> TestResponse:
        return self.ask("GET", path, **more)

    def post(self, path: str, **more: Any) -> TestResponse:
        return self.ask("POST", path, **more)

    def submit(self, *, key: str | None = None, **more: Any) -> TestResponse:
        headers = {"Idempotency-Key": key} if key else {}
        return self.post("/api/jobs/greetings", json=valid_body(**more), headers=headers)

    def job(self, **more: Any) -> str:
        answer = self.submit(**more)
        assert answer.status_code == 202, answer.text
        return str(answer.get_json()["job_id"])


@dataclass
class Service:
    """An installation with the tenants north and south, one web application and the queue it offers to."""

    url: str
    app: Flask
    queue: RecordingQueue
    directory: Directory
    tenants: dict[str, Tenant]
    build: Callable[..., Flask]

    def caller(self, tenant: str = "north", *roles: str, user: str | None = None) -> Caller:
        return Caller(self.app, tenant, **({"user": user} if user else {}), roles=roles)

    def rows(self, statement: str, *parameters: Any, tenant: str = "north") -> list[tuple[Any, ...]]:
        """Run a statement in a tenant's schema as the superuser, and return its rows if it has any."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            path = sql.SQL("SET search_path = {}, turno").format(sql.Identifier(self.tenants[tenant].schema))
            connection.execute(path)
            text = packaged().tenant.in_schema(statement, self.tenants[tenant].schema)
            cursor = connection.execute(text.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def everything(self) -> tuple[int, ...]:
        """Count the rows in all tenants that a refused request must not add."""
        tables = ("background_jobs", "background_job_events", "notifications", "turno.tickets", "turno.outcome_batches")
        count = f"SELECT {', '.join(f'(SELECT count(*) FROM {table})' for table in tables)}"  # noqa: S608 - names above
        return tuple(number for tenant in self.tenants for number in self.rows(count, tenant=tenant)[0])

    def doubt(self, job_id: str, key: str, *, tenant: str = "north") -> None:
        """Leave an outside effect of a job's in doubt, and if the job is open let it wait for a person."""
        self.rows(
            "INSERT INTO external_effects (key, type, outside_key, state, job_id, attempt, token, calls)"
            " SELECT %s, type, gen_random_uuid(), 'intended', id, 1, gen_random_uuid(), 1"
            " FROM background_jobs WHERE id = %s",
            key,
            job_id,
            tenant=tenant,
        )
        self.rows("UPDATE background_jobs SET run_at = 'infinity', in_doubt = %s WHERE id = %s AND status = 'pending'",
                  key, job_id, tenant=tenant)  # fmt: skip
        self.rows("UPDATE turno.tickets SET run_at = 'infinity', state = 'review' WHERE job_id = %s", job_id)

    def end(self, job_id: str, status: str = "failed", *, tenant: str = "north") -> None:
        """Let a job end as its worker would have it."""
        error = json.dumps({"class": "Boom", "message": "it broke", "traceback": "secret frames", "for_users": True})
        self.rows("UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %s",
                  job_id, tenant=tenant)  # fmt: skip
        result = json.dumps({"greeted": 2}) if status == "completed" else None
        self.rows(
            "SELECT job_end(%s, %s, 'no attempts left', %s, %s)",
            job_id,
            status,
            result,
            error if status == "failed" else None,
            tenant=tenant,
        )


@contextmanager
def a_service(url: str) -> Iterator[Service]:
    logins = Logins(server=url, master_key=b"a master key of 32 bytes or more")
    with psycopg.connect(url, autocommit=True) as admin:
        tenants = build.install_tenants(admin, logins, ("acme", "Acme"), ("north", "south"), packaged(TABLES))
    conninfo = logins.conninfo(logins.web, search_path="turno,pg_temp", application="web", timeouts=WEB_TIMEOUTS)
    for_operators = logins.conninfo(
        logins.operator, search_path="turno,pg_temp", application="admin", timeouts=WEB_TIMEOUTS
    )
    with (
        ConnectionPool(
            conninfo,
            connection_class=TimeoutConnection,
            min_size=1,
            max_size=MOST_CONNECTIONS,
            kwargs={"autocommit": True},
            timeout=30,
            open=True,
        ) as pool,
        ConnectionPool(
            for_operators,
            connection_class=TimeoutConnection,
            min_size=0,
            max_size=4,
            kwargs={"autocommit": True},
            timeout=30,
            open=True,
        ) as operators,
    ):
        from app import PAGES  # noqa: PLC0415
        from turno.capabilities.streams.live import LiveStreams  # noqa: PLC0415
        from turno.capabilities.streams.stream_events import StreamEvents  # noqa: PLC0415
        from turno.web import create_app  # noqa: PLC0415 - a second that only tests of the web should pay
        from turno.web import install as mount  # noqa: PLC0415
        from turno.web.services import Services  # noqa: PLC0415

        hubs: list[LiveStreams] = []

        def listen() -> psycopg.Connection[Any]:
            return TimeoutConnection.connect(conninfo, autocommit=True)

        queue, directory = RecordingQueue(), Directory(pool.connection, ttl=0)

        def build_app(*, host: Flask | None = None, **changed: Any) -> Flask:
            events = StreamEvents(changed.get("url_prefix", ""))
            hub = LiveStreams(
                connect=listen, events=events, most=100, most_per_tenant=80, most_per_user=60, compare_every=0.2
            )
            hubs.append(hub)
            dispatcher = Dispatcher(
                connection=changed.get("connection", pool.connection),
                queue=queue,
                pending_limit=changed.pop("pending_limit", changed.get("settings", SETTINGS).limits.pending),
                day_limits=changed.get("settings", SETTINGS).limits.per_day,
                command_limits=changed.get("settings", SETTINGS).limits.per_minute,
                announce=hub.announce,
            )
            usual: dict[str, Any] = {
                "settings": SETTINGS,
                "registry": build_registry(),
                "dispatcher": dispatcher,
                "directory": directory,
                "connection": pool.connection,
                "operator": operators.connection,
                "live": hub,
            }
            pages = changed.pop("pages", PAGES)
            services = Services(**usual | changed)
            if host is None:
                return create_app(services, pages)
            mount(host, services, pages)
            return host

        yield Service(url, build_app(), queue, directory, tenants, build_app)
        for hub in hubs:
            hub.stop()


@pytest.fixture(scope="module")
def service(cluster: Cluster) -> Iterator[Service]:
    """An installation with two tenants, for one module; each test adds separate users."""
    with cloned_database(cluster, "service", a_service) as url, a_service(url) as made:
        yield made


def in_an_hour(hours: float = 1) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()
