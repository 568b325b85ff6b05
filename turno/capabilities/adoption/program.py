"""Adopt schemas of the application from a program that creates customers."""

from turno.administration import Administration
from turno.capabilities.adoption.adopted import WRITE, InvalidRights, TableRights
from turno.capabilities.adoption.adopting import Adoption, CannotAdopt
from turno.tenancy.identity.tenant import Tenant

__all__ = ["CannotAdopt", "InvalidRights", "adopt"]


def adopt(
    administration: Administration,
    slug: str,
    schema: str,
    *,
    company: str | None = None,
    owner: str | None = None,
    rights: str = WRITE,
) -> Tenant:
    """Return the tenant of an adopted schema, as `turno schema adopt` creates it; by default it is its own company.

    `owner` creates the tables of the schema, by default its owner. `rights` are read, write, or a list such as
    orders:write,customers:read. Raises CannotAdopt or InvalidRights, having changed nothing.
    """
    adoption = Adoption(schema, owner, TableRights.parse(rights))
    company = company or slug
    administration.add_company(company, company)
    return administration.add_tenant(slug, company, adopt=adoption.record)
