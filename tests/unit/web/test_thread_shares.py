"""How many threads each tenant may have while others have some."""

from turno.http_server.thread_shares import ThreadShares


def taken(places: ThreadShares, tenant: int) -> int:
    """Take as many places of a tenant's as there are."""
    count = 0
    while places.take(tenant):
        count += 1
    return count


def test_tenant_may_use_half_of_the_remaining_threads() -> None:
    places = ThreadShares(16)
    assert [taken(places, tenant) for tenant in range(1, 6)] == [8, 4, 2, 1, 1]


def test_the_last_threads_go_one_to_a_tenant() -> None:
    assert [taken(ThreadShares(threads), 1) for threads in (1, 2, 3, 4)] == [1, 1, 1, 2]


def test_returned_thread_is_announced_and_free_for_others() -> None:
    told: list[None] = []
    places = ThreadShares(4, freed=lambda: told.append(None))
    assert taken(places, 1) == 2
    assert taken(places, 2) == 1
    assert not places.free(2)
    places.give_back(1)
    assert told == [None]
    assert not places.free(2)
    places.give_back(1)
    places.give_back(2)
    assert taken(places, 2) == 2
