"""A small ERP: an invoice and the job that computes its tax commit together, or roll back together."""

import os
from decimal import Decimal
from typing import Annotated
from uuid import UUID

from fastapi import Body, Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from starlette.middleware.sessions import SessionMiddleware
from starlette.types import Scope

import turno
from erp.models import Invoice
from turno import Principal, TurnoASGI

engine = create_async_engine(os.environ["ERP_DATABASE_URL"])
app = FastAPI()
app.add_middleware(SessionMiddleware, secret_key=os.environ.get("ERP_SECRET_KEY", "only for the example"))


async def signed_in(scope: Scope) -> Principal | None:
    session = Request(scope).session
    return Principal(user=session["user"], tenants=[session["tenant"]]) if "user" in session else None


async def current_user(request: Request) -> Principal:
    if user := await signed_in(request.scope):
        return user
    raise HTTPException(401, "sign in first")


@app.post("/login")
async def login(request: Request, user: Annotated[str, Body()], tenant: Annotated[str, Body()]) -> None:
    request.session.update(user=user, tenant=tenant)  # an ERP would check a password


@app.post("/invoices")
async def add_invoice(
    total: Annotated[Decimal, Body(embed=True)], user: Annotated[Principal, Depends(current_user)]
) -> UUID:
    (tenant,) = user.tenants
    schema = engine.execution_options(schema_translate_map={None: tenant})
    async with AsyncSession(schema) as session, session.begin():
        invoice = Invoice(total=total)
        session.add(invoice)
        await session.flush()
        job = await turno.enqueue_async(session, tenant, "compute_tax", invoice=invoice.id, user=user.user)
    return job.job_id


@app.exception_handler(turno.NotEnqueued)
async def refused(_request: Request, error: turno.NotEnqueued) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 409)


app.mount("/work", TurnoASGI(principal=signed_in))
