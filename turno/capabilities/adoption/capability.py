"""Adoption: existing schemas, roles of the application, and uninstallation. This declaration is all the core reads."""

from turno.capability import Capability, Command, Outside
from turno.tenancy.rights.matrix import OWN_ROWS, Matrix, Policy

_PACKAGE = "turno.capabilities.adoption"

CAPABILITY = Capability(
    name="adoption",
    control=Matrix(relations={"adoptions": {}}, policies={("adoptions", "own_adoptions"): Policy("*", OWN_ROWS, None)}),
    outside=Outside(f"{_PACKAGE}.grants:grant", f"{_PACKAGE}.grants:revoke", f"{_PACKAGE}.grants:check"),
    commands={
        "schema": Command(f"{_PACKAGE}.command:schema", "Adopt schemas of the application; share look-up schemas."),
        "host": Command(f"{_PACKAGE}.command:host", "Give roles of the application the rights of PUBLIC before Turno."),
        "db uninstall": Command(
            f"{_PACKAGE}.command:uninstall", "Remove Turno from the database; adopted schemas stay."
        ),
    },
)
