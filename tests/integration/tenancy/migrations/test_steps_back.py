"""Steps that are taken back."""

from tests.integration.tenancy.migrations.place import WIDGETS, Place


def test_steps_back(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    place.write("tenant/schema/0002_widgets.down.sql", "DROP TABLE widgets;")
    place.write("tenant/schema/0003_more.sql", "CREATE TABLE more ();")
    place.write("tenant/schema/0003_more.down.sql", "DROP TABLE more;")
    place.migrate()
    assert [outcome.done for outcome in place.rollback(slugs=["suc0001"])] == [("0003",)]
    assert place.versions() == {"": 1, "suc0001": 2, "suc0002": 3, "suc0003": 3}
    assert [outcome.done for outcome in place.rollback(to=1, dry_run=True)] == [
        ("0002",),
        ("0003", "0002"),
        ("0003", "0002"),
    ]
    assert [outcome.done for outcome in place.rollback(to=1, jobs=2)] == [("0002",), ("0003", "0002"), ("0003", "0002")]
    assert place.rollback(to=1) == []
    assert {outcome.done for outcome in place.migrate()} == {("0002", "0003")}


def test_what_cannot_be_taken_back_says_so(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    place.migrate()
    errors = {outcome.error for outcome in place.rollback()}
    assert errors == {"0002_widgets: A migration without a .down.sql cannot be taken back."}
