from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from threading import Barrier, Thread
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection
from psycopg.rows import dict_row

from cli.demo.invoices import InvoiceIntegrity, check_invoices, issue
from handlers.invoicing import (
    LOCK,
    AlreadyInvoiced,
    EmptyOrder,
    Invoice,
    InvoicedMeanwhile,
    UnknownOrder,
    UnknownPointOfSale,
    issue_all,
)
from tenants.northwind.load import load_orders
from tenants.northwind.money import iva, line_net
from tests.integration.handlers.branch_schema import STEPS, connect, create_branch, run_migration
from turno.testing.wait import wait_until

CLEAN = InvoiceIntegrity(missing_numbers=0, doubled_orders=0, wrong_totals=0)
FIRST = 10248
ORDERS = 120


@pytest.fixture
def branch(database: str) -> Iterator[Connection[Any]]:
    """An empty branch with a registered point of sale, 1, and a monotributo one, 2."""
    with create_branch(database, "branch") as connection:
        load_orders(connection, range(0))
        yield connection


@pytest.fixture
def loaded(branch: Connection[Any]) -> Connection[Any]:
    """The branch with orders FIRST to FIRST + ORDERS - 1, and a second registered point of sale, 3."""
    load_orders(branch, range(ORDERS))
    branch.execute("INSERT INTO points_of_sale VALUES (3, 'registered')")
    return branch


Line = tuple[Decimal, int, Decimal, Decimal]


def invoice_order(branch: Connection[Any], order_id: int, point_of_sale: int) -> Invoice:
    return issue(branch, order_id, point_of_sale)[0]


def add_order(branch: Connection[Any], tax_condition: str, lines: list[Line]) -> int:
    branch.execute("INSERT INTO customers VALUES ('NEW', 'New', %s, NULL, NULL, 'Argentina')", (tax_condition,))
    branch.execute("INSERT INTO orders VALUES (1, 'NEW', current_date)")
    for line_no, (price, quantity, discount, rate) in enumerate(lines, start=1):
        branch.execute("INSERT INTO products VALUES (%s, 'New', 1, %s)", (1000 + line_no, rate))
        branch.execute(
            "INSERT INTO order_lines VALUES (1, %s, %s, %s, %s, %s)",
            (line_no, 1000 + line_no, quantity, price, discount),
        )
    return 1


def counted(branch: Connection[Any]) -> dict[tuple[int, str], list[int]]:
    query = (
        "SELECT point_of_sale, letter, array_agg(number ORDER BY number) FROM invoices"
        " WHERE kind = 'invoice' GROUP BY 1, 2"
    )
    return {(point_of_sale, letter): numbers for point_of_sale, letter, numbers in branch.execute(query)}


def assert_gap_free(branch: Connection[Any]) -> None:
    for numbers in counted(branch).values():
        assert numbers == list(range(1, len(numbers) + 1))
    assert check_invoices(branch) == CLEAN


@pytest.mark.parametrize(
    ("point_of_sale", "tax_condition", "letter", "iva_total"),
    [
        (1, "registered", "A", "31.50"),
        (1, "monotributo", "A", "31.50"),
        (1, "exempt", "B", "31.50"),
        (1, "final_consumer", "B", "31.50"),
        (2, "registered", "C", "0.00"),
        (2, "monotributo", "C", "0.00"),
        (2, "exempt", "C", "0.00"),
        (2, "final_consumer", "C", "0.00"),
    ],
)
def test_letter_and_iva_follow_from_issuer_and_customer(
    branch: Connection[Any], point_of_sale: int, tax_condition: str, letter: str, iva_total: str
) -> None:
    whole, none = Decimal(100), Decimal(0)
    lines = [(whole, 1, none, Decimal("21.00")), (whole, 1, none, Decimal("10.50"))]
    invoice = invoice_order(branch, add_order(branch, tax_condition, lines), point_of_sale)
    assert (invoice.letter, invoice.number, invoice.lines) == (letter, 1, 2)
    assert (invoice.net_total, invoice.iva_total) == (Decimal("200.00"), Decimal(iva_total))
    assert invoice.total == invoice.net_total + invoice.iva_total
    assert check_invoices(branch) == CLEAN


def test_invoice_equals_the_tables(loaded: Connection[Any]) -> None:
    invoice = invoice_order(loaded, FIRST, 1)
    with loaded.cursor(row_factory=dict_row) as cursor:
        stored = cursor.execute("SELECT * FROM invoices").fetchone()
        lines = cursor.execute("SELECT * FROM invoice_lines ORDER BY line_no").fetchall()
        ordered = cursor.execute("SELECT * FROM order_lines WHERE order_id = %s ORDER BY line_no", (FIRST,)).fetchall()
    assert stored is not None
    assert invoice == Invoice(**{name: stored[name] for name in Invoice.__slots__ if name != "lines"}, lines=len(lines))
    assert (stored["customer_id"], stored["currency"], stored["net_total"]) == ("VINET", "USD", Decimal("440.00"))
    shared = ("line_no", "product_id", "quantity", "unit_price", "discount")
    assert [[line[name] for name in shared] for line in lines] == [[line[name] for name in shared] for line in ordered]


def test_lines_of_letter_c_charge_no_rate(loaded: Connection[Any]) -> None:
    invoice_order(loaded, FIRST, 2)
    assert loaded.execute("SELECT DISTINCT iva_rate, iva FROM invoice_lines").fetchall() == [(0, 0)]


def test_date_is_argentinian_in_any_time_zone(loaded: Connection[Any]) -> None:
    argentina = timedelta(hours=-3)
    for order_id, zone in ((FIRST, "Pacific/Kiritimati"), (FIRST + 1, "Pacific/Niue")):
        loaded.execute("SELECT set_config('TimeZone', %s, false)", (zone,))
        before = (datetime.now(UTC) + argentina).date()
        invoice_order(loaded, order_id, 1)
        row = loaded.execute("SELECT issued_on FROM invoices WHERE order_id = %s", (order_id,)).fetchone()
        assert row is not None
        assert before <= row[0] <= (datetime.now(UTC) + argentina).date()


def test_invoicing_works_with_any_row_factory(loaded: Connection[Any]) -> None:
    loaded.row_factory = dict_row
    assert invoice_order(loaded, FIRST, 1).number == 1


def test_it_never_commits(database: str, loaded: Connection[Any]) -> None:
    with connect(database, "branch") as other, loaded.transaction(force_rollback=True):
        invoice_order(loaded, FIRST, 1)
        assert other.execute("SELECT count(*) FROM invoices").fetchone() == (0,)
    assert counted(loaded) == {}


lines = st.tuples(
    st.decimals(0, 10**9, places=4),
    st.integers(1, 10**6),
    st.decimals(0, 1, places=4),
    st.sampled_from([Decimal("0.00"), Decimal("10.50"), Decimal("21.00"), Decimal("27.00")]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ordered=st.lists(lines, min_size=1, max_size=8), point_of_sale=st.sampled_from([1, 2]))
def test_totals_are_the_sums_of_the_lines(branch: Connection[Any], ordered: list[Line], point_of_sale: int) -> None:
    # The tables' checks compare each line with PostgreSQL's own rounding, so storing it is already half the test.
    with branch.transaction(force_rollback=True):
        order_id = add_order(branch, "registered", ordered)
        preview = branch.execute("SELECT line_count, net_amount FROM billable_orders").fetchone()
        invoice = invoice_order(branch, order_id, point_of_sale)
        summed = branch.execute("SELECT count(*), sum(net), sum(iva) FROM invoice_lines").fetchone()
        assert summed == (invoice.lines, invoice.net_total, invoice.iva_total)
        assert preview == (invoice.lines, invoice.net_total)
        assert invoice.total == invoice.net_total + invoice.iva_total
        # An independent computation, by Python's decimals.
        nets = [line_net(price, quantity, discount) for price, quantity, discount, _ in ordered]
        rates = [rate if point_of_sale == 1 else Decimal(0) for *_, rate in ordered]
        assert invoice.net_total == sum(nets)
        assert invoice.iva_total == sum(map(iva, nets, rates))
        assert check_invoices(branch) == CLEAN


@pytest.mark.parametrize(
    ("price", "rate", "net", "tax"),
    [
        ("0.005", "0", "0.01", "0.00"),  # half a cent is rounded up, to the even side or not
        ("0.015", "0", "0.02", "0.00"),
        ("0.025", "0", "0.03", "0.00"),
        ("0.0049", "0", "0.00", "0.00"),
        ("14.0000", "21", "14.00", "2.94"),
        # A division by 100 would round the IVA to 4 decimals first, from .12495 to .1250, and then to .13.
        ("10000000000001.19", "10.5", "10000000000001.19", "1050000000000.12"),
    ],
)
def test_a_line_is_rounded_half_up_once(branch: Connection[Any], price: str, rate: str, net: str, tax: str) -> None:
    order_id = add_order(branch, "registered", [(Decimal(price), 1, Decimal(0), Decimal(rate))])
    invoice = invoice_order(branch, order_id, 1)
    assert (invoice.net_total, invoice.iva_total) == (Decimal(net), Decimal(tax))


signed = st.tuples(
    st.decimals(0, 10**9, places=4),
    st.integers(-(10**6), 10**6).filter(bool),
    st.decimals(0, 1, places=4),
    st.sampled_from([Decimal("0.00"), Decimal("10.50"), Decimal("21.00"), Decimal("27.00")]),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ordered=st.lists(signed, min_size=1, max_size=8), point_of_sale=st.sampled_from([1, 2]))
def test_returned_goods_become_a_credit_note_to_the_cent(
    branch: Connection[Any], ordered: list[Line], point_of_sale: int
) -> None:
    with branch.transaction(force_rollback=True):
        order_id = add_order(branch, "registered", ordered)
        preview = branch.execute("SELECT net_amount FROM billable_orders").fetchone()
        issued = {invoice.kind: invoice for invoice in issue(branch, order_id, point_of_sale)}
        sold = sum(quantity > 0 for _, quantity, _, _ in ordered)
        assert {kind: invoice.lines for kind, invoice in issued.items()} == {
            kind: count for kind, count in (("invoice", sold), ("credit_note", len(ordered) - sold)) if count
        }
        totals = {invoice.kind: invoice.net_total for invoice in issued.values()}
        # The page's forecast equals the invoice's claim less the credit note.
        assert preview == (totals.get("invoice", Decimal(0)) - totals.get("credit_note", Decimal(0)),)
        assert all(
            invoice.total == invoice.net_total + invoice.iva_total >= 0 and invoice.number == 1
            for invoice in issued.values()
        )
        assert check_invoices(branch) == CLEAN


def test_credit_notes_are_numbered_apart_and_issued_once(branch: Connection[Any]) -> None:
    order_id = add_order(
        branch, "registered", [(Decimal(10), 2, Decimal(0), Decimal(21)), (Decimal(10), -1, Decimal(0), Decimal(21))]
    )
    labels = [invoice.label for invoice in issue(branch, order_id, 1)]
    assert labels == ["A 00001-00000001", "NC A 00001-00000001"]
    with pytest.raises(AlreadyInvoiced) as refusal:
        issue(branch, order_id, 1)
    assert refusal.value.invoice.label == labels[0]
    totals = "SELECT letter, net_total, total FROM {}"
    assert branch.execute(totals.format("invoice_totals").encode()).fetchall() == [("A", 20, Decimal("24.20"))]
    assert branch.execute(totals.format("credit_note_totals").encode()).fetchall() == [("A", 10, Decimal("12.10"))]
    assert branch.execute("SELECT FROM billable_orders").fetchall() == []


def test_credit_notes_are_not_given_up_by_a_step_back(branch: Connection[Any]) -> None:
    issue(branch, add_order(branch, "exempt", [(Decimal(1), -1, Decimal(0), Decimal(21))]), 1)
    with pytest.raises(psycopg.errors.RaiseException, match="credit notes"):
        run_migration(branch, "0002_credit_notes.down.sql")


def test_an_unknown_point_of_sale_is_named(loaded: Connection[Any]) -> None:
    with pytest.raises(UnknownPointOfSale) as refusal:
        invoice_order(loaded, FIRST, 9)
    assert refusal.value.point_of_sale == 9


@pytest.mark.parametrize("order_id", [0, -1, 2**31, 2**80])
def test_an_unknown_order_is_named(loaded: Connection[Any], order_id: int) -> None:
    with pytest.raises(UnknownOrder) as refusal:
        invoice_order(loaded, order_id, 1)
    assert refusal.value.order_id == order_id


def test_an_order_without_lines_is_shown_as_billable_and_refused(branch: Connection[Any]) -> None:
    order_id = add_order(branch, "registered", [])
    shown = branch.execute("SELECT company_name, line_count, net_amount FROM billable_orders").fetchall()
    assert shown == [("New", 0, Decimal("0.00"))]
    with pytest.raises(EmptyOrder) as refusal:
        invoice_order(branch, order_id, 1)
    assert refusal.value.order_id == order_id


@pytest.mark.parametrize("again_at", [1, 2, 3])
def test_a_second_invoice_is_refused_naming_the_first(loaded: Connection[Any], again_at: int) -> None:
    first = invoice_order(loaded, FIRST, 1)
    with pytest.raises(AlreadyInvoiced) as refusal:
        invoice_order(loaded, FIRST, again_at)
    assert refusal.value.invoice == first


def test_refusal_uses_no_number_and_keeps_transaction(loaded: Connection[Any]) -> None:
    with loaded.transaction():
        first = invoice_order(loaded, FIRST, 1)
        for order_id, refused in ((FIRST, AlreadyInvoiced), (0, UnknownOrder)):
            with pytest.raises(refused):
                invoice_order(loaded, order_id, 1)
        same_letter = [invoice_order(loaded, order_id, 1) for order_id in range(FIRST + 1, FIRST + 10)]
    assert first.number == 1
    assert sorted(i.number for i in (first, *same_letter) if i.letter == first.letter)[:2] == [1, 2]
    assert_gap_free(loaded)


def run_together(database: str, *works: Callable[[Connection[Any]], None]) -> None:
    """Run each work in its own thread and session, all starting at once; the first failure is raised here."""
    start = Barrier(len(works))

    def run(work: Callable[[Connection[Any]], None]) -> None:
        with connect(database, "branch") as connection:
            start.wait()
            work(connection)

    with ThreadPoolExecutor(len(works)) as threads:
        for done in [threads.submit(run, work) for work in works]:
            done.result()


def batch(order_ids: list[int], point_of_sale: int, *, undo: frozenset[int] = frozenset()) -> Callable[..., None]:
    """Invoice in transactions of ten, each order under a savepoint; orders in `undo` are rolled back."""

    def work(connection: Connection[Any]) -> None:
        for first in range(0, len(order_ids), 10):
            with connection.transaction():
                for order_id in order_ids[first : first + 10]:
                    try:
                        with connection.transaction(force_rollback=order_id in undo):
                            invoice_order(connection, order_id, point_of_sale)
                    except AlreadyInvoiced:
                        pass

    return work


def test_disjoint_batches_number_without_gaps(database: str, loaded: Connection[Any]) -> None:
    everything = list(range(FIRST, FIRST + ORDERS))
    undo = frozenset(everything[::7])
    run_together(database, *(batch(everything[part::4], 1, undo=undo) for part in range(4)))
    assert sum(map(len, counted(loaded).values())) == ORDERS - len(undo)
    assert_gap_free(loaded)


def test_overlapping_batches_invoice_each_order_once(database: str, loaded: Connection[Any]) -> None:
    everything = list(range(FIRST, FIRST + ORDERS))
    undone_once = frozenset(everything[::5])
    shuffled = [Random(seed).sample(everything, ORDERS) for seed in range(4)]  # noqa: S311  # a shuffle, not a secret
    run_together(
        database, *(batch(ids, 1, undo=undone_once if n == 0 else frozenset()) for n, ids in enumerate(shuffled))
    )
    assert sum(map(len, counted(loaded).values())) == ORDERS
    assert_gap_free(loaded)


def test_batches_of_three_points_invoice_each_order_once(database: str, loaded: Connection[Any]) -> None:
    everything = list(range(FIRST, FIRST + ORDERS))
    undo = frozenset(everything[::5])
    run_together(database, *(batch(everything, pos, undo=undo) for pos in (1, 2, 3, 3)))
    assert sum(map(len, counted(loaded).values())) == ORDERS - len(undo)
    assert_gap_free(loaded)


def wait_until_session_waits(branch: Connection[Any]) -> None:
    query = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
    """
    assert wait_until(lambda: branch.execute(query).fetchone() == (1,), within=30), "no session waits for a lock"


@pytest.mark.parametrize("winner_commits", [True, False])
def test_loser_between_two_points_waits_for_the_winner(
    database: str, loaded: Connection[Any], *, winner_commits: bool
) -> None:
    outcomes: list[Invoice] = []

    def lose(connection: Connection[Any]) -> None:
        try:
            with connection.transaction():
                outcomes.append(invoice_order(connection, FIRST, 3))
        except AlreadyInvoiced as refusal:
            outcomes.append(refusal.invoice)

    with connect(database, "branch") as other, connect(database, "branch") as watcher:
        loser = Thread(target=lose, args=(other,))
        with loaded.transaction(force_rollback=not winner_commits):
            winner = invoice_order(loaded, FIRST, 1)
            loser.start()
            wait_until_session_waits(watcher)
        loser.join()
    assert [outcome.point_of_sale for outcome in outcomes] == [1 if winner_commits else 3]
    assert (outcomes == [winner]) == winner_commits
    assert_gap_free(loaded)


def test_changes_during_the_wait_are_invoiced(database: str, loaded: Connection[Any]) -> None:
    issued: list[Invoice] = []
    price = "UPDATE order_lines SET unit_price = unit_price * 2 WHERE order_id = %s"
    with connect(database, "branch") as other, connect(database, "branch") as watcher:
        waiter = Thread(target=lambda: issued.append(invoice_order(other, FIRST, 1)))
        with loaded.transaction():
            loaded.execute(LOCK, (1,))
            waiter.start()
            wait_until_session_waits(watcher)
            loaded.execute(price, (FIRST,))
            loaded.execute("UPDATE points_of_sale SET issuer_condition = 'monotributo' WHERE id = 1")
        waiter.join()
    [invoice] = issued
    assert (invoice.net_total, invoice.letter) == (Decimal("880.00"), "C")
    assert_gap_free(loaded)


def test_lost_order_of_several_keeps_no_number(database: str, loaded: Connection[Any]) -> None:
    """Its numbers would have a gap; taken one by one, the order is refused and the remaining orders get theirs."""
    several = [FIRST, FIRST + 1, FIRST + 2]
    lost: list[Exception] = []

    def lose(connection: Connection[Any]) -> None:
        try:
            with connection.transaction():
                issue_all(connection, several, 3)
        except InvoicedMeanwhile as error:
            lost.append(error)

    with connect(database, "branch") as other, connect(database, "branch") as watcher:
        loser = Thread(target=lose, args=(other,))
        with loaded.transaction():
            winner = invoice_order(loaded, FIRST + 1, 1)
            loser.start()
            wait_until_session_waits(watcher)
        loser.join()
    assert len(lost) == 1
    assert_gap_free(loaded)
    answers = issue_all(loaded, several, 3)
    refusal = answers[FIRST + 1]
    assert isinstance(refusal, AlreadyInvoiced)
    assert refusal.invoice == winner
    assert [len(answers[order]) for order in (FIRST, FIRST + 2)] == [1, 1]  # type: ignore[arg-type]
    assert_gap_free(loaded)


def test_opposite_orders_end_only_as_transient_deadlock(database: str, loaded: Connection[Any]) -> None:
    first_taken = Barrier(2)
    deadlocks: list[psycopg.Error] = []

    def take(point_of_sale: int, order_ids: tuple[int, int]) -> Callable[[Connection[Any]], None]:
        def work(connection: Connection[Any]) -> None:
            try:
                with connection.transaction():
                    invoice_order(connection, order_ids[0], point_of_sale)
                    first_taken.wait()
                    invoice_order(connection, order_ids[1], point_of_sale)
            except psycopg.errors.DeadlockDetected as deadlock:
                deadlocks.append(deadlock)

        return work

    run_together(database, take(1, (FIRST, FIRST + 1)), take(3, (FIRST + 1, FIRST)))
    assert len(deadlocks) == 1
    assert_gap_free(loaded)


@pytest.mark.parametrize(
    ("damage", "counts"),
    [
        ("UPDATE invoice_counters SET last_number = last_number + 2 WHERE letter = 'C'", (2, 0, 0)),
        ("UPDATE invoices SET number = number + 5 WHERE order_id = 10250", (5, 0, 0)),
        ("UPDATE invoices SET net_total = net_total + 1, total = total + 1 WHERE order_id = 10248", (0, 0, 1)),
        ("DELETE FROM invoice_lines", (0, 0, 3)),
        (
            """ALTER TABLE invoices DROP CONSTRAINT invoices_order_id_key;
            UPDATE invoices SET order_id = 10249 WHERE order_id = 10248""",
            (0, 1, 0),
        ),
    ],
)
def test_the_integrity_check_counts_each_kind_of_fault(
    loaded: Connection[Any], damage: str, counts: tuple[int, int, int]
) -> None:
    for order_id in (10248, 10249, 10250):
        invoice_order(loaded, order_id, 2)
    assert check_invoices(loaded) == CLEAN
    loaded.execute(damage.encode())
    assert check_invoices(loaded) == InvoiceIntegrity(*counts)


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("UPDATE invoices SET total = total + 1", "invoices_total_is_net_plus_iva"),
        ("UPDATE invoices SET iva_total = 1, total = net_total + 1", "invoices_c_shows_no_iva"),
        ("UPDATE invoice_lines SET net = net + 0.01", "invoice_lines_net_to_the_cent"),
        ("UPDATE invoice_lines SET iva = iva + 0.01", "invoice_lines_iva_to_the_cent"),
        ("UPDATE products SET iva_rate = 20", "products_iva_rate_check"),
    ],
)
def test_tables_refuse_inconsistent_sums(loaded: Connection[Any], statement: str, constraint: str) -> None:
    invoice_order(loaded, FIRST, 2)
    with pytest.raises(psycopg.errors.CheckViolation) as refusal:
        loaded.execute(statement.encode())
    assert refusal.value.diag.constraint_name == constraint


def test_down_leaves_nothing_and_up_can_follow(loaded: Connection[Any]) -> None:
    for name in reversed(STEPS):
        run_migration(loaded, f"{name}.down.sql")
    left = loaded.execute("SELECT relname FROM pg_class WHERE relnamespace = 'branch'::regnamespace").fetchall()
    assert left == []
    for name in STEPS:
        run_migration(loaded, f"{name}.sql")
