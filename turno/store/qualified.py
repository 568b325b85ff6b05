"""Names of the tenant's schema in statements of a handler's session."""

from typing import LiteralString


def qualified(statement: LiteralString, schema: str) -> LiteralString:
    """Return the statement with the tenant's schema, such as t_0123456789ab, in place of each `{}`.

    The session looks for unqualified names in an adopted schema first, whose owner may create any function.
    """
    return statement.replace("{}", schema)
