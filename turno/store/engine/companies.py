"""The login with which a consolidated report reads the branches of its company."""

from dataclasses import replace
from typing import NamedTuple

import psycopg

from turno.jobs.claim import Claim
from turno.store.engine.engine import Engine
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
