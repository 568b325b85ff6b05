"""Viewers and frames for tests that need no server."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from uuid import UUID, uuid4

from turno.capabilities.streams.subscriber import State, Subscriber, View
from turno.tenancy.identity.tenant import Tenant

TENANT = Tenant(
    id=1, slug="suc0001", company="acme", schema="t_0123456789ab", owner_role="o", handler_role="r", api_role="a",
    login_epoch=0,
)  # fmt: skip


def subscriber(*, user: str = "ana", job_id: UUID | None = None, tenant: Tenant = TENANT, **changed: Any) -> Subscriber:
    usual: dict[str, Any] = {"operator": False, "issued_at": 0.0, "until": 4e9}
    return Subscriber(View(tenant=tenant, user=user, job_id=job_id, **usual | changed))


def state(frame: bytes = b"x", *, key: Hashable | None = None, revision: int = 1, label: str = "") -> State:
    return State(key or uuid4(), revision, label, frame)
