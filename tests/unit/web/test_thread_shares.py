"""How many threads each tenant may have while others have some."""

from turno.http_server.request_threads import RECENTLY, ThreadShares


def taken(shares: ThreadShares, tenant: int) -> int:
    """Take as many threads of a tenant as there are."""
    count = 0
    while shares.take(tenant):
        count += 1
    return count


def test_tenant_may_use_half_of_the_remaining_threads() -> None:
    shares = ThreadShares(16)
    assert [taken(shares, tenant) for tenant in range(1, 6)] == [8, 4, 2, 1, 1]


def test_the_last_threads_go_one_to_a_tenant() -> None:
    assert [taken(ThreadShares(threads), 1) for threads in (1, 2, 3, 4)] == [1, 1, 1, 2]


def test_returned_thread_is_announced_and_free_for_others() -> None:
    reply: list[None] = []
    shares = ThreadShares(4, freed=lambda: reply.append(None))
    assert taken(shares, 1) == 2
    assert taken(shares, 2) == 1
    assert not shares.free(2)
    shares.give_back(1, 0.001)
    assert reply == [None]
    assert not shares.free(2)
    shares.give_back(1, 0.001)
    shares.give_back(2, 0.001)
    assert taken(shares, 2) == 2


def test_expensive_requests_have_one_thread_beside_others() -> None:
    now = [0.0]
    shares = ThreadShares(16, clock=lambda: now[0])
    for tenant, seconds in ((1, 0.05), (2, 0.002)):
        assert shares.take(tenant)
        shares.give_back(tenant, seconds)
    assert taken(shares, 1) == 1
    assert taken(shares, 2) == 4
    for _ in range(4):
        shares.give_back(2, 0.002)
    now[0] = RECENTLY
    assert taken(shares, 1) == 7, "tenant 1 is alone again"


def test_average_of_a_tenant_follows_its_requests() -> None:
    shares = ThreadShares(16, clock=lambda: 0.0)
    assert shares.take(2)
    for seconds in (0.05, *(0.0005,) * 20):
        assert shares.take(1)
        shares.give_back(1, seconds)
    assert taken(shares, 1) == 7
