"""Jobs over HTTP, from the POST to the answer of each route."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.problems import problem_of

if TYPE_CHECKING:
    from tests.api import Service


def test_a_new_job_can_be_looked_at(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job(priority="urgent")
    answer = ana.get(f"/api/jobs/{job_id}")
    body = answer.get_json()
    assert answer.status_code == 200
    assert (body["status"], body["label"], body["priority"]) == ("pending", "waiting", "urgent")
    assert body["progress"] == {"done": 0, "failed": 0, "total": 0, "percent": 0, "message": None}
    assert (body["result"], body["error"], body["attempts"], body["execution_time_seconds"]) == (None, None, 0, None)
    assert answer.headers["Retry-After"] == "2"
    assert (body["outcome"], body["payload"]["day"]) == (None, "2030-01-31")


def test_a_running_job_shows_its_progress(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    service.rows(
        "UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1, cancel_requested_at = NULL"
        " WHERE id = %s",
        job_id,
    )
    service.rows(
        "INSERT INTO background_job_attempt_rows (job_id, attempt, token, worker, backend_pid, backend_start,"
        " started_at) VALUES (%s, 1, gen_random_uuid(), 'host:1', 1, now(), now() - interval '3 seconds')",
        job_id,
    )
    service.rows(
        "INSERT INTO background_job_progress_rows (job_id, done, failed, total, message)"
        " VALUES (%s, 7, 1, 9, 'going on')",
        job_id,
    )
    body = ana.get(f"/api/jobs/{job_id}").get_json()
    assert body["label"] == "running"
    assert body["progress"] == {"done": 7, "failed": 1, "total": 9, "percent": 88, "message": "going on"}
    assert 3 <= body["execution_time_seconds"] < 60
    [attempt] = ana.get(f"/api/jobs/{job_id}/attempts").get_json()["attempts"]
    assert (attempt["attempt"], attempt["worker"], attempt["outcome"]) == (1, None, None)
    operator = service.caller("north", "operator")
    assert operator.get(f"/api/jobs/{job_id}/attempts").get_json()["attempts"][0]["worker"] == "host:1"


def test_all_items_done_is_not_yet_a_hundred_percent(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    service.rows("INSERT INTO background_job_progress_rows (job_id, done, total) VALUES (%s, 9, 9)", job_id)
    assert ana.get(f"/api/jobs/{job_id}").get_json()["progress"]["percent"] == 99
    service.end(job_id, "completed")
    assert ana.get(f"/api/jobs/{job_id}").get_json()["progress"]["percent"] == 100


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ("run_at = 'infinity', reason = 'the outcome outside is unknown'", "needs review"),
        ("run_at = now() + interval '1 hour'", "scheduled"),
        ("run_at = now() + interval '1 hour', attempt = 1, errors = 1, error = '{}'", "retrying"),
        ("attempt = 1, errors = 1, error = '{}'", "waiting"),
        ("status = 'running', started_at = now(), attempt = 1", "running"),
        ("status = 'running', started_at = now(), attempt = 1, cancel_requested_at = now()", "cancelling"),
        ("status = 'completed', finished_at = now()", "done"),
        ("status = 'failed', finished_at = now(), error = '{}'", "failed"),
        ("status = 'cancelled', finished_at = now(), reason = 'cancelled by its user'", "cancelled"),
        ("status = 'cancelled', finished_at = now(), reason = 'expired'", "expired"),
    ],
)
def test_each_state_has_its_word(service: Service, change: str, label: str) -> None:
    ana = service.caller()
    job_id = ana.job()
    service.rows(f"UPDATE background_jobs SET {change} WHERE id = %s", job_id)  # noqa: S608 - written above
    body = ana.get(f"/api/jobs/{job_id}").get_json()
    assert body["label"] == label
    assert ana.get("/api/jobs").get_json()["jobs"][0]["label"] == label
    assert (body["run_at"] is None) == (label == "needs review")


def test_failure_is_shown_and_traceback_only_to_operators(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    service.end(job_id)
    answer = ana.get(f"/api/jobs/{job_id}")
    body = answer.get_json()
    assert body["error"] == {"class": "Boom", "message": "it broke", "traceback": None, "reference": None}
    assert "Retry-After" not in answer.headers
    assert "secret frames" not in answer.text
    seen = service.caller("north", "operator").get(f"/api/jobs/{job_id}").get_json()
    assert seen["error"]["traceback"] == "secret frames"


def test_a_database_s_own_words_are_for_operators(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    error = json.dumps({"class": "UndefinedTable", "message": "no secret_table", "sqlstate": "42P01"})
    service.rows("UPDATE background_jobs SET error = %s WHERE id = %s", error, job_id)
    for path in (f"/api/jobs/{job_id}", "/api/jobs"):
        assert "secret_table" not in ana.get(path).text
    assert "secret_table" in service.caller("north", "operator").get(f"/api/jobs/{job_id}").text


def test_an_unchanged_job_is_not_sent_again(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    first = ana.get(f"/api/jobs/{job_id}")
    known = {"If-None-Match": first.headers["ETag"]}
    again = ana.get(f"/api/jobs/{job_id}", headers=known)
    assert again.status_code == 304
    assert again.data == b""
    assert again.headers["Retry-After"] == "2"
    service.rows("INSERT INTO background_job_progress_rows (job_id, done, total) VALUES (%s, 1, 2)", job_id)
    moved = ana.get(f"/api/jobs/{job_id}", headers=known)
    assert moved.status_code == 200
    service.rows("UPDATE background_jobs SET reason = 'changed' WHERE id = %s", job_id)
    assert ana.get(f"/api/jobs/{job_id}", headers={"If-None-Match": moved.headers["ETag"]}).status_code == 200


def test_an_operator_s_answer_is_never_taken_for_a_user_s(service: Service) -> None:
    ana, operator = service.caller(), service.caller("north", "operator")
    job_id = ana.job()
    service.end(job_id)
    shown = {caller: caller.get(f"/api/jobs/{job_id}") for caller in (ana, operator)}
    assert ("secret frames" in shown[ana].text, "secret frames" in shown[operator].text) == (False, True)
    for caller, other in ((ana, operator), (operator, ana)):
        for known, status in ((caller, 304), (other, 200)):
            headers = {"If-None-Match": shown[known].headers["ETag"]}
            assert caller.get(f"/api/jobs/{job_id}", headers=headers).status_code == status
        assert {"Authorization", "Cookie", "X-Schema"} <= set(shown[caller].vary)


def test_jobs_are_listed_newest_first_page_by_page(service: Service) -> None:
    ana = service.caller()
    made = [ana.job() for _ in range(5)]
    seen: list[str] = []
    path = "/api/jobs?limit=2"
    for _ in range(3):
        page = ana.get(path).get_json()
        seen += [job["job_id"] for job in page["jobs"]]
        path = f"/api/jobs?limit=2&cursor={page['next_cursor']}"
    assert seen == made[::-1]
    assert page["next_cursor"] is None


def test_jobs_are_filtered(service: Service) -> None:
    ana = service.caller()
    kept, failed, done = ana.job(), ana.job(), ana.job()
    service.end(failed)
    service.end(done, "completed")

    def ids(query: str) -> set[str]:
        return {job["job_id"] for job in ana.get(f"/api/jobs?{query}").get_json()["jobs"]}

    assert ids("status=pending") == {kept}
    assert ids("status=failed&status=completed") == {failed, done}
    assert ids("type=greetings") == {kept, failed, done}
    assert ids("type=other") == set()
    assert ana.get("/api/jobs").get_json()["jobs"][0]["result"] is None


def test_operators_list_jobs_of_other_users(service: Service) -> None:
    ana, ben, operator = service.caller(), service.caller(), service.caller("north", "operator")
    job_id, other = ana.job(), ben.job()
    assert operator.get("/api/jobs").get_json()["jobs"] == []
    result = operator.get(f"/api/jobs?user={ana.user}").get_json()["jobs"]
    assert [job["job_id"] for job in result] == [job_id]
    everybody = {job["job_id"] for job in operator.get("/api/jobs?user=*&limit=200").get_json()["jobs"]}
    assert {job_id, other} <= everybody
    assert ben.get(f"/api/jobs?user={ben.user}").status_code == 200
    problem_of(ben.get(f"/api/jobs?user={ana.user}"), 403)
    problem_of(ben.get("/api/jobs?user=*"), 403)


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=x", "limit=-1", "limit=1&limit=2", "limit=%D9%A1", "cursor=x", "status=running2",
     "status=", "type=", "type=%00", "user=%00", "other=1", "Limit=1", f"type={'x' * 256}",
     # Texts that lax converters accept as a number, a truth value or nothing.
     "limit=1_0", "limit=%2B1", "limit=1.0", "limit=%201", "limit=", f"limit={'0' * 5000}1", "needs_review=1",
     "needs_review=yes", "needs_review=True", "needs_review=", "cursor=", "cursor=null", "user="],
)  # fmt: skip
def test_a_wrong_query_is_refused(service: Service, query: str) -> None:
    body = problem_of(service.caller().get(f"/api/jobs?{query}"), 400)
    assert body["errors"][0]["field"] == query.partition("=")[0]


def test_a_batch_shows_its_items_and_retries_the_failed_ones(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    kept = {"class": "CustomerUnknown", "message": "no such customer", "traceback": "secret frames", "for_users": True}
    error = json.dumps(kept)
    for key, state in (("a", "done"), ("b", "failed"), ("c", "done"), ("d", "failed")):
        service.rows(
            "INSERT INTO background_job_items (job_id, key, state, ref, error) VALUES (%s, %s, %s, %s, %s)",
            job_id, key, state, f"ref-{key}" if state == "done" else None, error if state == "failed" else None,
        )  # fmt: skip
    service.end(job_id, "completed")
    first = ana.get(f"/api/jobs/{job_id}/items?limit=3").get_json()
    assert [(item["key"], item["state"], item["ref"]) for item in first["items"]] == [
        ("a", "done", "ref-a"),
        ("b", "failed", None),
        ("c", "done", "ref-c"),
    ]
    second = ana.get(f"/api/jobs/{job_id}/items?limit=3&cursor={first['next_cursor']}").get_json()
    assert ([item["key"] for item in second["items"]], second["next_cursor"]) == (["d"], None)
    failed = ana.get(f"/api/jobs/{job_id}/items?state=failed")
    assert [item["key"] for item in failed.get_json()["items"]] == ["b", "d"]
    assert failed.get_json()["items"][0]["error"]["message"] == "no such customer"
    assert "secret frames" not in failed.text
    new = ana.post(f"/api/jobs/{job_id}/retry").get_json()["job_id"]
    skipped = ana.get(f"/api/jobs/{new}/items").get_json()["items"]
    assert [(item["key"], item["state"]) for item in skipped] == [("a", "skipped"), ("c", "skipped")]
    problem_of(ana.get(f"/api/jobs/{job_id}/items?state=new"), 400)


def test_items_are_sorted_by_number_across_pages(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    keys = ["3", "9", "40", "0040", "A 2", "A 10", "Zoë", "ítem:9", "ítem:40"]
    shuffled = [*keys[::2], *keys[1::2]]
    service.rows(
        "INSERT INTO background_job_items (job_id, key, state) SELECT %s, unnest(%s::text[]), 'done'", job_id, shuffled
    )
    for limit in (1, 2, 200):
        result: list[str] = []
        path = f"/api/jobs/{job_id}/items?limit={limit}"
        page = ana.get(path).get_json()
        while True:
            result += [item["key"] for item in page["items"]]
            if page["next_cursor"] is None:
                break
            page = ana.get(f"{path}&cursor={quote(page['next_cursor'])}").get_json()
        assert result == keys


def test_changes_of_a_job_are_listed_page_by_page(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    service.end(job_id)
    first = ana.get(f"/api/jobs/{job_id}/events?limit=2").get_json()
    assert [(event["old_status"], event["new_status"]) for event in first["events"]] == [
        (None, "pending"),
        ("pending", "running"),
    ]
    second = ana.get(f"/api/jobs/{job_id}/events?cursor={first['next_cursor']}").get_json()
    assert [event["new_status"] for event in second["events"]] == ["failed"]
    assert second["next_cursor"] is None


def test_unserved_job_is_reported(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    before = ana.get(f"/api/jobs/{job_id}")
    assert before.get_json()["waiting_for"] is None
    service.rows("UPDATE turno.tickets SET backend = 'pool', run_at = now() - interval '1 minute' WHERE job_id = %s",
                 job_id)  # fmt: skip
    service.rows("SELECT worker_start('pool', 'here', 1, NULL, '{monthly_report}', '{1}')")
    try:
        after = ana.get(f"/api/jobs/{job_id}", headers={"If-None-Match": before.headers["ETag"]})
        assert after.status_code == 200
        assert after.get_json()["waiting_for"] == "no living worker knows greetings"
        (listed,) = ana.get("/api/jobs").get_json()["jobs"]
        assert listed["waiting_for"] == "no living worker knows greetings"
    finally:
        service.rows("DELETE FROM workers")


def test_split_job_lists_its_parts(service: Service) -> None:
    ana = service.caller()
    job_id, first, second, other = (ana.job() for _ in range(4))
    service.rows("UPDATE background_jobs SET awaited_by = %s WHERE id = ANY (%s::uuid[])", job_id, [first, second])
    before = ana.get(f"/api/jobs/{job_id}")
    assert before.get_json()["parts"] == {"total": 2, "ended": 0, "failed": 0}
    assert ana.get(f"/api/jobs/{other}").get_json()["parts"] is None
    service.rows("UPDATE turno.tickets SET awaited_by = %s WHERE job_id = ANY (%s::uuid[])", job_id, [first, second])
    service.rows("UPDATE turno.tickets SET state = 'parts' WHERE job_id = %s", job_id)
    service.rows(
        "INSERT INTO background_job_items (job_id, key, state) VALUES (%s, '9', 'done'), (%s, '40', 'done')",
        second, first,
    )  # fmt: skip
    service.end(first)
    after = ana.get(f"/api/jobs/{job_id}", headers={"If-None-Match": before.headers["ETag"]})
    assert after.status_code == 200
    body = after.get_json()
    assert body["parts"] == {"total": 2, "ended": 1, "failed": 1}
    assert body["waiting_for"] == "the parts that it was split into have not all ended"
    assert body["progress"]["percent"] == 50
    listed = ana.get(f"/api/jobs?part_of={job_id}").get_json()["jobs"]
    assert [job["job_id"] for job in listed] == [second, first]
    items = ana.get(f"/api/jobs/{job_id}/items").get_json()["items"]
    assert [item["key"] for item in items] == ["9", "40"]
    problem_of(ana.get("/api/jobs?part_of=x"), 400)
