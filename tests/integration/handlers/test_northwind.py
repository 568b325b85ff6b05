from collections.abc import Iterator
from decimal import Decimal
from threading import Thread
from typing import Any

import pytest
from psycopg import Connection

from cli.demo.invoices import InvoiceIntegrity, check_invoices, issue
from tenants.northwind.load import BRANCH_SHARES, expected_net_total, load_orders, reset_invoices
from tests.integration.handlers.branch_schema import connect, create_branch

CLEAN = InvoiceIntegrity(missing_numbers=0, doubled_orders=0, wrong_totals=0)
TABLES = ("customers", "products", "points_of_sale", "orders", "order_lines")


@pytest.fixture
def branch(database: str) -> Iterator[Connection[Any]]:
    with create_branch(database, "branch") as connection:
        yield connection


def contents(branch: Connection[Any]) -> dict[str, list[Any]]:
    return {table: branch.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}  # noqa: S608


def totals(branch: Connection[Any]) -> dict[str, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in branch.execute("SELECT * FROM invoice_totals ORDER BY letter")}


def invoice_all(branch: Connection[Any], point_of_sale: int = 1) -> None:
    billable = branch.execute("SELECT order_id FROM billable_orders ORDER BY order_id").fetchall()
    with branch.transaction():
        for (order_id,) in billable:
            issue(branch, order_id, point_of_sale)


def test_shares_cover_all_orders_and_add_up() -> None:
    assert [len(share) for share in BRANCH_SHARES] == [500, 200, 130]
    assert expected_net_total(range(830)) == Decimal("1265793.29")
    assert sum(map(expected_net_total, BRANCH_SHARES)) == Decimal("1265793.29")


def test_all_orders_over_three_branches_are_invoiced_to_the_cent(database: str) -> None:
    for number, share in enumerate(BRANCH_SHARES, start=1):
        with create_branch(database, f"branch_{number}") as branch:
            load_orders(branch, share)
            invoice_all(branch)
            by_letter = totals(branch)
            assert set(by_letter) == {"A", "B"}
            assert sum(row[1] for row in by_letter.values()) == len(share)
            assert sum(row[2] for row in by_letter.values()) == expected_net_total(share)
            assert all(net + iva == total for _, _, net, iva, total in by_letter.values())
            assert branch.execute("SELECT count(*) FROM billable_orders").fetchone() == (0,)
            assert check_invoices(branch) == CLEAN


def test_billable_orders_preview_the_invoices(branch: Connection[Any]) -> None:
    load_orders(branch, BRANCH_SHARES[2])
    preview = dict(branch.execute("SELECT order_id, net_amount FROM billable_orders").fetchall())
    invoice_all(branch)
    assert preview == dict(branch.execute("SELECT order_id, net_total FROM invoices").fetchall())
    assert len(preview) == 130


def test_a_share_goes_by_ascending_order_id(branch: Connection[Any]) -> None:
    load_orders(branch, range(2, 5))
    assert branch.execute("SELECT id FROM orders ORDER BY id").fetchall() == [(10250,), (10251,), (10252,)]


def test_loading_twice_changes_nothing(branch: Connection[Any]) -> None:
    load_orders(branch, BRANCH_SHARES[2])
    first = contents(branch)
    assert [len(first[table]) for table in ("customers", "products", "points_of_sale", "orders")] == [91, 77, 2, 130]
    load_orders(branch, BRANCH_SHARES[2])
    assert contents(branch) == first


def test_loading_keeps_edited_rows(branch: Connection[Any]) -> None:
    load_orders(branch, range(3))
    branch.execute("UPDATE customers SET tax_condition = 'exempt'")
    load_orders(branch, range(5))
    assert branch.execute("SELECT DISTINCT tax_condition FROM customers").fetchall() == [("exempt",)]
    assert branch.execute("SELECT count(*) FROM orders").fetchone() == (5,)


def test_two_loads_at_once_leave_one_copy(database: str, branch: Connection[Any]) -> None:
    load_orders(branch, range(0))
    failures: list[Exception] = []

    def load() -> None:
        try:
            with connect(database, "branch") as connection:
                load_orders(connection, BRANCH_SHARES[2])
        except Exception as failure:  # noqa: BLE001 # reported to the main thread
            failures.append(failure)

    threads = [Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert branch.execute("SELECT count(*) FROM orders").fetchone() == (130,)


def test_invented_data_is_mostly_ordinary(branch: Connection[Any]) -> None:
    load_orders(branch, range(1))
    rates = branch.execute("SELECT iva_rate, count(*) FROM products GROUP BY 1 ORDER BY 2 DESC").fetchall()
    assert rates == [(Decimal("21.00"), 62), (Decimal("10.50"), 15)]
    conditions = dict(branch.execute("SELECT tax_condition, count(*) FROM customers GROUP BY 1").fetchall())
    assert conditions == {"registered": 37, "final_consumer": 18, "monotributo": 18, "exempt": 18}


def test_after_a_reset_the_same_orders_get_the_same_numbers(branch: Connection[Any]) -> None:
    numbers = "SELECT order_id, letter, number, total FROM invoices ORDER BY order_id"
    load_orders(branch, range(40))
    invoice_all(branch)
    first = branch.execute(numbers).fetchall()
    reset_invoices(branch)
    assert branch.execute("SELECT count(*) FROM billable_orders").fetchone() == (40,)
    invoice_all(branch)
    assert branch.execute(numbers).fetchall() == first


def test_a_reset_waits_for_the_invoicing_under_way(database: str, branch: Connection[Any]) -> None:
    load_orders(branch, range(2))
    with connect(database, "branch") as other:
        resetting = Thread(target=reset_invoices, args=(other,))
        with branch.transaction():
            issue(branch, 10248, 1)
            resetting.start()
            resetting.join(timeout=0.2)
            assert resetting.is_alive()
        resetting.join()
    assert branch.execute("SELECT count(*) FROM invoices").fetchone() == (0,)
    assert check_invoices(branch) == CLEAN
