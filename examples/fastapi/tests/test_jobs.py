from decimal import Decimal

from erp.jobs import ComputeTax, ComputeTaxPayload

from turno.testing.installation import Installation


def test_the_job_computes_the_tax(turno: Installation) -> None:
    (invoice,) = turno.rows("INSERT INTO invoices (total) VALUES (100) RETURNING id")
    assert turno.run(ComputeTax, ComputeTaxPayload(invoice["id"])) == {"tax": "21.00"}
    assert turno.rows("SELECT tax FROM invoices") == [{"tax": Decimal("21.00")}]
