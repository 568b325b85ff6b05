"""The branches that a user may choose from."""

from turno.tenancy.identity.directory import UnknownTenant
from turno.web.auth.principal import Principal
from turno.web.services import services

# An operator may choose any branch; a list of thousands is no choice, so beyond this they are typed.
MAX_BRANCHES_LISTED = 50


def branches_of(principal: Principal) -> tuple[str, ...]:
    """Return the slugs of the active branches that the user may choose, in order; an operator's first few."""
    if principal.operator and not principal.tenants:
        active = services().directory.list_active()
        return tuple(sorted(one.slug for one in active if principal.operates(one.company))[:MAX_BRANCHES_LISTED])
    return tuple(slug for slug in sorted(principal.tenants)[:MAX_BRANCHES_LISTED] if _open(principal, slug))


def _open(principal: Principal, slug: str) -> bool:
    try:
        return principal.issued_at >= services().directory.find(slug).tokens_valid_from
    except UnknownTenant:
        return False
