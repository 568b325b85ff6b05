"""A link opens exactly the file of its signature; names of files."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from itsdangerous import BadSignature, URLSafeSerializer

from turno.capabilities.files.kept_file import media_type_of, name_problem
from turno.capabilities.files.uploads import signer

KEY = "a master key of 32 bytes or more"
FILE = UUID(int=7)
CONTENT = ["suc0001", "ana", 1000]
fields = st.text(st.characters(codec="utf-8"), max_size=8)


@given(fields, fields)
def test_a_link_has_the_content_that_was_signed(tenant: str, user: str) -> None:
    assert signer(FILE, KEY).loads(signer(FILE, KEY).dumps((tenant, user, 1000))) == [tenant, user, 1000]


@pytest.mark.parametrize("other", [signer(UUID(int=8), KEY), signer(FILE, KEY + "x")])
def test_a_link_is_of_one_file_and_key(other: URLSafeSerializer) -> None:
    with pytest.raises(BadSignature):
        signer(FILE, KEY).loads(other.dumps(CONTENT))


@pytest.mark.parametrize("changed", [["suc0002", "ana", 1000], ["suc0001", "ben", 1000], ["suc0001", "ana", 1001]])
def test_a_link_changed_in_one_place_is_refused(changed: list[object]) -> None:
    signature = signer(FILE, KEY).dumps(CONTENT).partition(".")[2]
    content = str(signer(FILE, KEY).dumps(changed)).partition(".")[0]
    with pytest.raises(BadSignature):
        signer(FILE, KEY).loads(f"{content}.{signature}")


@pytest.mark.parametrize(
    "name",
    [
        "../orders.csv",
        "/etc/passwd",
        "a\\b.csv",
        "a\0.csv",
        "a\n.csv",
        "a\x94.csv",
        "a\u2028.csv",
        "",
        "x" * 121,
        ".hidden",
        'a"b.csv',
        "c:x",
    ],
)
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    assert name_problem(name) is not None


@pytest.mark.parametrize("name", ["orders.csv", "Pedidos de Junio (2).xlsx", "año 2026.csv", "x" * 120])
def test_names_of_files_are_taken(name: str) -> None:
    assert name_problem(name) is None


def test_a_type_follows_from_the_name() -> None:
    assert media_type_of("A.CSV") == "text/csv"
    assert media_type_of("a.exe") == media_type_of("a") == "application/octet-stream"
