"""A launched worker without a supervisor, and a database that is dropped while it works."""

from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.installation import LOOK_ALIKE, build_example
from tests.misbehaving_handlers import Faulty
from turno.testing.wait import wait_until


def test_a_launched_worker_leaves_when_its_database_was_dropped(database: str, tmp_path: Path) -> None:
    name = sql.Identifier(str(conninfo_to_dict(database)["dbname"]))
    elsewhere = make_conninfo(database, dbname="postgres")
    with (
        build_example(database, tmp_path, LOOK_ALIKE) as example,
        psycopg.connect(elsewhere, autocommit=True) as server,
    ):
        example.faulty = True
        job_id = example.enqueue({"how": "loop_forever"}, handler=Faulty)
        worker = example.start_worker(job_id, TURNO_HEARTBEAT_SECONDS="0.2", TURNO_DEAD_AFTER_SECONDS="0.5")
        assert wait_until(lambda: example.job(job_id)["status"] == "running", within=30)
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
        assert wait_until(lambda: worker.poll() is not None, within=40)
        server.execute(sql.SQL("CREATE DATABASE {}").format(name))  # its fixture will drop it
        for session in (example.admin, example.web, example.engine):
            session.close()
