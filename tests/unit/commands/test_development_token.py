import jwt
import pytest

from turno.commands.development_token import CannotSign, development_token
from turno.settings import Settings
from turno.web.auth.tokens import TokenCheck

SETTINGS = Settings(jwt_key="a key that only this test knows, long enough")


def test_the_web_accepts_what_is_signed_here() -> None:
    token = development_token(SETTINGS, user="ana", tenants=("suc0001",), operator=True, minutes=5)
    principal = TokenCheck(SETTINGS).principal(f"Bearer {token}")
    assert (principal.user, set(principal.tenants), principal.operator) == ("ana", {"suc0001"}, True)
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 300


def test_where_tokens_are_checked_with_a_public_key_none_is_made() -> None:
    with pytest.raises(CannotSign, match="JWT_ALGORITHMS=RS256,RS384"):
        development_token(Settings(jwt_key="x", jwt_algorithms=("RS256", "RS384")), user="ana", tenants=())
