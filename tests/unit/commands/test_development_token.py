import jwt
import pytest
from click.testing import CliRunner

from turno.commands.token import CannotSign, development_token, token
from turno.settings import Settings
from turno.web.auth import TokenCheck

SETTINGS = Settings(jwt_key="a key that only this test knows, long enough")


def test_web_accepts_the_signed_token() -> None:
    signed = development_token(SETTINGS, user="ana", tenants=("suc0001",), role="operator", minutes=5)
    principal = TokenCheck(SETTINGS).principal(f"Bearer {signed}")
    assert (principal.user, set(principal.tenants), principal.operator) == ("ana", {"suc0001"}, True)
    claims = jwt.decode(signed, options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 300


@pytest.mark.parametrize("role", ["reader", "operator", "admin"])
def test_a_role_holds_for_the_companies_that_are_named(role: str) -> None:
    named = ["--user", "eva", "--role", role, "--company", "acme", "--company", "globex"]
    done = CliRunner().invoke(token, named, env={"TURNO_JWT_KEY": SETTINGS.jwt_key, "TURNO_DOTENV": "read"})
    principal = TokenCheck(SETTINGS).principal(f"Bearer {done.output.strip()}")
    assert (principal.role, principal.companies) == (role, {"acme", "globex"})
    everywhere = development_token(SETTINGS, user="eva", tenants=(), role=role)
    assert TokenCheck(SETTINGS).principal(f"Bearer {everywhere}").everywhere


@pytest.mark.parametrize("named", [[], ["--company", "acme", "--tenant", "suc0001"]])
def test_a_token_that_could_be_used_for_nothing_is_not_made(named: list[str]) -> None:
    done = CliRunner().invoke(token, ["--user", "eva", *named])
    assert (done.exit_code, "--role" in done.output) == (2, True)


def test_where_tokens_are_checked_with_a_public_key_none_is_made() -> None:
    with pytest.raises(CannotSign, match="TURNO_JWT_KEY is a public key"):
        development_token(Settings(jwt_key="-----BEGIN PUBLIC KEY-----"), user="ana", tenants=())
