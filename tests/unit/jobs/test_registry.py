import pytest

from handlers import build_registry
from turno.errors import InvalidSettings, UnknownJobType
from turno.jobs.registry import Registry


def test_an_unknown_type_names_those_that_are_known() -> None:
    with pytest.raises(UnknownJobType, match=r"no handler .*'os.system'.*batch_invoicing"):
        build_registry().handler("os.system")


def test_a_handler_registered_under_a_foreign_name_is_refused() -> None:
    with pytest.raises(InvalidSettings, match=r"the type billing cannot be loaded .* it serves 'batch_invoicing'"):
        Registry({"billing": "handlers.batch_invoicing:BatchInvoicing"})
