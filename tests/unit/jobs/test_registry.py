import sys

import pytest

from handlers import build_registry
from turno.errors import UnknownJobType
from turno.jobs.registry import Registry


def test_a_type_is_loaded_when_it_is_asked_for() -> None:
    registry = build_registry()
    assert "batch_invoicing" in registry.types
    assert registry.load("batch_invoicing").type == "batch_invoicing"
    assert "handlers.batch_invoicing" in sys.modules


def test_an_unknown_type_names_those_that_are_known() -> None:
    with pytest.raises(UnknownJobType, match=r"no handler .*'os.system'.*batch_invoicing"):
        build_registry().load("os.system")


def test_a_handler_registered_under_a_foreign_name_is_refused() -> None:
    registry = Registry({"billing": "handlers.batch_invoicing:BatchInvoicing"})
    with pytest.raises(ValueError, match="registered as 'billing'"):
        registry.load("billing")
