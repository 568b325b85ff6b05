"""A link opens exactly the file of its signature."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turno.capabilities.files.kept_file import media_type_of, name_problem
from turno.capabilities.files.link import Link

KEY = b"a master key of 32 bytes or more"
LINK = Link(file_id=UUID(int=7), tenant="suc0001", user="ana", since=1000, until=1300)


def test_a_link_is_its_own() -> None:
    signature = LINK.query(KEY)["signature"]
    assert LINK.signed(signature, KEY)
    assert not LINK.signed(signature, KEY + b"x")
    assert not LINK.signed("", KEY)


@pytest.mark.parametrize(
    "changed", [{"file_id": UUID(int=8)}, {"tenant": "suc0002"}, {"user": "ben"}, {"since": 999}, {"until": 1301}]
)
def test_a_link_changed_in_one_place_is_refused(changed: dict[str, Any]) -> None:
    assert not replace(LINK, **changed).signed(LINK.query(KEY)["signature"], KEY)


fields = st.text(st.characters(blacklist_characters="\n", codec="utf-8"), max_size=8)  # as PostgreSQL stores them


@given(fields, fields, fields, fields)
def test_no_two_links_are_signed_alike(tenant: str, user: str, other_tenant: str, other: str) -> None:
    one, two = replace(LINK, tenant=tenant, user=user), replace(LINK, tenant=other_tenant, user=other)
    assert (one == two) == one.signed(two.query(KEY)["signature"], KEY)


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
