"""Guards of the example's business: gap-free numbers, one invoice an order, cents rounded half up."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

INVOICING = "handlers/invoicing.py"
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
        "an order is invoiced as it was before the wait for its number",
        "section 10: an invoice claims its order's amounts at the time of issue",
        INVOICING,
        "            lock.execute(LOCK, (point_of_sale,))\n"
        '            cursor.execute(ISSUE, {"order_ids": known, "point_of_sale": point_of_sale})\n',
        '            cursor.execute(ISSUE, {"order_ids": known, "point_of_sale": point_of_sale})\n'
        "            lock.execute(LOCK, (point_of_sale,))\n",
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
        "section 1: no customer is billed twice",
        INVOICING,
        "        ON CONFLICT (order_id, kind) DO NOTHING\n",
        "",
        (f"{TESTS}::test_loser_between_two_points_waits_for_the_winner",),
    ),
    Mutant(
        "numbers of orders that another point of sale invoiced are left out",
        GAP_FREE,
        INVOICING,
        '            elif len(order_ids) > 1:\n                raise InvoicedMeanwhile(row["order_id"])\n',
        "",
        (f"{TESTS}::test_lost_order_of_several_keeps_no_number",),
    ),
    Mutant(
        "the IVA of a large amount is rounded twice",
        "section 10: rounded half-up per line to cents",
        INVOICING,
        "SELECT *, round(net * iva_rate * 0.01, 2) AS iva FROM line",
        "SELECT *, round(net * iva_rate / 100, 2) AS iva FROM line",
        (f"{TESTS}::test_a_line_is_rounded_half_up_once",),
    ),
    Mutant(
        "letter C charges IVA",
        "section 10: IVA by rate",
        INVOICING,
        "CASE k.letter WHEN 'C' THEN 0 ELSE p.iva_rate END AS iva_rate",
        "p.iva_rate",
        (f"{TESTS}::test_lines_of_letter_c_charge_no_rate",),
    ),
    Mutant(
        "credited quantities are invoiced",
        "credited quantities become a credit note",
        INVOICING,
        "CASE WHEN l.quantity > 0 THEN 'invoice' ELSE 'credit_note' END AS kind",
        "'invoice' AS kind",
        ("tests/integration/handlers/test_invoicing.py::test_credit_notes_are_numbered_apart_and_issued_once",),
    ),
)
