"""Ids of jobs: version 7, in the order of their creation."""

from tests.installation import ExampleInstallation


def test_ids_are_version_7_of_the_server_s_clock(example: ExampleInstallation) -> None:
    (row,) = example.rows("SELECT turno.uuid_v7() AS id, extract(epoch FROM clock_timestamp()) * 1000 AS ms")
    assert (row["id"].version, row["id"].variant) == (7, "specified in RFC 4122")
    assert abs((row["id"].int >> 80) - float(row["ms"])) < 1000


def test_ids_keep_their_order_within_a_millisecond(example: ExampleInstallation) -> None:
    made = [row["id"] for row in example.rows("SELECT turno.uuid_v7() AS id FROM generate_series(1, 1000)")]
    assert len(set(made)) == 1000
    assert made == sorted(made)
    assert len({value.int >> 80 for value in made}) < 900  # several of a millisecond
