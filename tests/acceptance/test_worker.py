from tests.world import World


def test_a_spawned_worker_invoices_a_batch(world: World) -> None:
    orders = world.order_ids()
    job_id = world.enqueue({"order_ids": orders, "point_of_sale": 1})
    log = world.work(job_id)
    job = world.job(job_id)
    assert job["status"] == "completed", log
    assert job["result"]["invoiced"] == len(orders)
    assert world.ticket(job_id) is None
