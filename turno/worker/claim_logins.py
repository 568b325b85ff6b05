"""The passwords of a claim's logins, which the supervisor derives and a child never can."""

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import psycopg

from turno.jobs.handler import Registry
from turno.jobs.job import Claim
from turno.store.engine.engine import Engine
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import unlocked
from turno.tenancy.identity.tenant import CompanyLogin, HandlerLogin

MOST_BRANCHES = 500  # of a report: a child receives all branches in one message, which has room for twice as many


class Company(NamedTuple):
    """The report login of a tenant's company, and the schemas of its branches."""

    slug: str
    report_role: str
    login_epoch: int
    branches: list[str]
    schemas: list[str]


def with_company(engine: Engine, claim: Claim) -> Claim:
    """Return the claim with the login that reads its company's branches; unchanged if its tenant was removed.

    Raises psycopg.errors.ProgramLimitExceeded above MOST_BRANCHES.
    """
    company = engine.row(Company, "SELECT * FROM company_of(%s)", claim.tenant_id)
    if company is None:
        return claim
    if len(company.branches) > MOST_BRANCHES:
        count = f"company {company.slug} has {len(company.branches)} branches"
        raise psycopg.errors.ProgramLimitExceeded(f"{count}, and a report reads at most {MOST_BRANCHES}")
    login = HandlerLogin(company.slug, claim.login.schema, company.report_role, company.login_epoch)
    return replace(claim, company=CompanyLogin(login, dict(zip(company.branches, company.schemas, strict=True))))


class ClaimLogins:
    """Adds the passwords of its logins to a claim; the sessions of a child have the child's name."""

    def __init__(self, engine: Engine, logins: Logins, registry: Registry) -> None:
        self._engine = engine
        self._logins = logins
        self._registry = registry
        self._unlocked = lru_cache(maxsize=4096)(self._unlock)

    def unlock(self, claim: Claim, name: str) -> Claim:
        """Return the claim with its logins; a rescue finds a dead worker's sessions by this name."""
        if self._registry.handler(claim.type).reads_company:
            claim = with_company(self._engine, claim)
        version = self._engine.server_version
        claim = replace(claim, login=self._unlocked(claim.login, name, version))
        if claim.company is None:
            return claim
        return replace(claim, company=replace(claim.company, login=self._unlocked(claim.company.login, name, version)))

    def _unlock(self, login: HandlerLogin, name: str, server_version: int) -> HandlerLogin:
        return unlocked(self._logins, login, application=f"turno-handler {name}", server_version=server_version)
