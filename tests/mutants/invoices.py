"""Guards of the example's business: gap-free numbers, one invoice an order, cents rounded half up."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

INVOICING = "handlers/services/invoicing.py"
STORING = "handlers/services/invoice_storing.py"
TESTS = "tests/integration/handlers/test_invoicing.py"
GAP_FREE = "section 10: gap-free numbers per point of sale and letter under concurrency"

MUTANTS = (
    Mutant(
        "a point of sale is not locked",
        GAP_FREE,
        STORING,
        "WHERE id = %s FOR NO KEY UPDATE",
        "WHERE id = %s",
        (f"{TESTS}::test_disjoint_batches_number_without_gaps",),
    ),
    Mutant(
        "an order is invoiced as it was before the wait for its number",
        "section 10: an invoice claims what its order says when it is issued",
        INVOICING,
        "            lock.execute(LOCK, (point_of_sale,))\n            cursor.execute(ORDERS, (list(order_ids),))\n",
        "            cursor.execute(ORDERS, (list(order_ids),))\n            lock.execute(LOCK, (point_of_sale,))\n",
        (f"{TESTS}::test_changes_during_the_wait_are_invoiced",),
    ),
    Mutant(
        "pesos and dollars make one total",
        "section 10: totals in numeric, each in its currency",
        "handlers/batch_invoicing.py",
        "SELECT v.currency, sum(v.net_total * s.sign), sum(v.total * s.sign)",
        "SELECT 'USD' AS currency, sum(v.net_total * s.sign), sum(v.total * s.sign)",
        ("tests/integration/handlers/test_batch_invoicing.py::test_result_has_a_total_of_each_currency",),
    ),
    Mutant(
        "a batch takes its orders as they come",
        "section 10: two batches never wait for each other in a circle",
        "handlers/batch_invoicing.py",
        "orders = sorted(payload.order_ids)",
        "orders = list(payload.order_ids)",
        (
            "tests/integration/handlers/test_batch_invoicing.py::test_orders_are_invoiced_in_ascending_order_as_given_or_not",
        ),
    ),
    Mutant(
        "a second invoice of an order is a fault",
        "section 1: nobody is billed twice",
        STORING,
        "        ON CONFLICT (order_id, kind) DO NOTHING\n",
        "",
        (f"{TESTS}::test_the_loser_between_two_points_of_sale_waits_for_the_winners_end",),
    ),
    Mutant(
        "numbers of orders that another point of sale invoiced are left out",
        GAP_FREE,
        INVOICING,
        "    if lost and len(order_ids) > 1:\n        raise InvoicedMeanwhile(min(lost))\n",
        "",
        (f"{TESTS}::test_who_loses_one_of_several_orders_keeps_no_number",),
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
        "rate = order.iva_rates[place] if taxed else Decimal(0)",
        "rate = order.iva_rates[place]",
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
