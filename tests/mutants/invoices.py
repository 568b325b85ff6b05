"""Guards of the example's business: gap-free numbers, one invoice an order, cents rounded half up."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

INVOICING = "handlers/services/invoicing.py"
TESTS = "tests/integration/handlers/test_invoicing.py"
GAP_FREE = "section 10: gap-free numbers per point of sale and letter under concurrency"

MUTANTS = (
    Mutant(
        "a point of sale is not locked",
        GAP_FREE,
        INVOICING,
        "WHERE id = %s FOR NO KEY UPDATE",
        "WHERE id = %s",
        (f"{TESTS}::test_disjoint_batches_number_without_gaps",),
    ),
    Mutant(
        "a batch takes its orders as they come",
        "section 10: two batches never wait for each other in a circle",
        "handlers/batch_invoicing.py",
        "job.each(sorted(payload.order_ids))",
        "job.each(payload.order_ids)",
        (
            "tests/integration/handlers/test_batch_invoicing.py::test_orders_are_invoiced_in_ascending_order_as_given_or_not",
        ),
    ),
    Mutant(
        "a second invoice of an order is a fault",
        "section 1: nobody is billed twice",
        INVOICING,
        "            ON CONFLICT (order_id, kind) DO NOTHING\n",
        "",
        (f"{TESTS}::test_a_second_invoice_is_refused_naming_the_first[1]",),
    ),
    Mutant(
        "half a cent goes to the even side",
        "section 10: rounded half-up per line to cents",
        "handlers/services/money.py",
        "_EXACT = Context(prec=60, rounding=ROUND_HALF_UP)",
        '_EXACT = Context(prec=60, rounding="ROUND_HALF_EVEN")',
        ("tests/unit/handlers/test_money.py::test_known_lines",),
    ),
    Mutant(
        "letter C charges IVA",
        "section 10: IVA by rate",
        INVOICING,
        'rates = [Decimal(0)] * len(nets) if letter == "C" else order.iva_rates',
        "rates = order.iva_rates",
        (f"{TESTS}::test_lines_of_letter_c_charge_no_rate",),
    ),
    Mutant(
        "what was taken back is invoiced",
        "what was taken back becomes a credit note",
        "handlers/services/invoicing.py",
        '("credit_note", -1))',
        '("invoice", -1))',
        ("tests/integration/handlers/test_invoicing.py::test_credit_notes_are_numbered_apart_and_issued_once",),
    ),
)
