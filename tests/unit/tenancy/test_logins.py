import pytest
from psycopg.conninfo import conninfo_to_dict

from turno.tenancy.identity.logins import PINNED, Logins, installation_id

KEY = b"a master key of 32 bytes or more"
SERVER = "postgresql://root:secret@db.example:5433/erp?options=-c%20role%3Droot"


def test_a_password_follows_key_role_and_epoch() -> None:
    logins = Logins(SERVER, KEY)
    assert logins.password("r") == logins.password("r") == Logins("dbname=other", KEY).password("r")
    others = {
        logins.password("q"),
        logins.password("r", 1),
        Logins(SERVER, KEY + b"!").password("r"),
        logins.password("r:1"),
    }
    assert logins.password("r") not in others
    assert len(others) == 4


def test_a_login_takes_nothing_from_the_server_s_own() -> None:
    conninfo = conninfo_to_dict(
        Logins(SERVER, KEY).conninfo("r", search_path="t_1,pg_temp", application="a", timeouts={"lock_timeout": "7"})
    )
    assert conninfo["user"] == "r"
    assert conninfo["password"] != "secret"
    assert (conninfo["host"], conninfo["port"], conninfo["dbname"]) == ("db.example", "5433", "erp")
    assert "role=root" not in str(conninfo["options"])
    assert "-c search_path=t_1,pg_temp" in str(conninfo["options"])
    assert "-c lock_timeout=7" in str(conninfo["options"])
    assert all(f"-c {name}=" in str(conninfo["options"]) for name in PINNED)


def test_installations_are_distinguished() -> None:
    assert Logins(SERVER, KEY).installation == installation_id("erp") != installation_id("erp2")
    assert Logins(SERVER, KEY, "blue").role("web") == "turno_blue_web"


@pytest.mark.parametrize("installation", ["Blue", "a_b", "x" * 13, "ñ", "a b", "a\n"])
def test_an_installation_s_id_is_plain(installation: str) -> None:
    with pytest.raises(ValueError, match="not an installation id"):
        Logins(SERVER, KEY, installation)


def test_missing_variables_are_named() -> None:
    with pytest.raises(ValueError, match="TURNO_MASTER_KEY"):
        Logins(SERVER, b"x" * 31)
    with pytest.raises(ValueError, match="name a database"):
        Logins("host=db.example", KEY)


def test_a_cut_name_is_no_name() -> None:
    logins = Logins(SERVER, KEY, "blue")
    assert len(logins.role("x" * 52)) == 63
    for name in ("x" * 53, "ñ" * 27):
        with pytest.raises(ValueError, match="63 bytes"):
            logins.role(name)


def test_the_key_is_not_shown() -> None:
    assert "32 bytes" not in repr(Logins(SERVER, KEY))
