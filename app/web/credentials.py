"""Find out who asks."""

from flask import Request

from app.web.services import services
from app.web.tokens import Principal


def principal_of(request: Request) -> Principal:
    """Return who asks; raises Problem 401."""
    return services().tokens.principal(request.headers.get("Authorization"))
