from typing import Any

import pytest

from handlers import build_registry
from turno.errors import InvalidSettings, UnknownJobType
from turno.jobs.handler import JobHandler, Registry


def test_unknown_type_error_names_the_known_types() -> None:
    with pytest.raises(UnknownJobType, match=r"no handler .*'os.system'.*batch_invoicing"):
        build_registry().handler("os.system")


def test_a_handler_registered_under_a_foreign_name_is_refused() -> None:
    with pytest.raises(InvalidSettings, match=r"the type billing cannot be loaded .* it serves 'batch_invoicing'"):
        Registry({"billing": "handlers.batch_invoicing:BatchInvoicing"})


@pytest.mark.parametrize(
    ("attributes", "reply"),
    [({}, "ordered is for a handler that subscribes"), ({"subscribes": ("a",), "key_limit": 2}, "leave out")],
)
def test_an_order_that_cannot_be_had_is_refused(attributes: dict[str, Any], reply: str) -> None:
    with pytest.raises(ValueError, match=reply):
        type("Ordered", (JobHandler,), {"type": "ordered_one", "ordered": True} | attributes)
