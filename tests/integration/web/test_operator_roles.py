"""The permissions of the roles reader, operator and admin, and the limits of an operator of one company."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.api import Caller, token
from turno.jobs.redaction import LEFT_OUT

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

    from tests.api import Service


def operator(service: Service, tenant: str = "north", role: str = "operator", **claims: Any) -> Caller:
    return Operator(service.app, tenant, user=f"eva-{role}", roles=(role,), claims=claims)


class Operator(Caller):
    """An operator with a role, and with further claims in the token."""

    def __init__(self, *given: Any, claims: dict[str, Any], **named: Any) -> None:
        super().__init__(*given, **named)
        object.__setattr__(self, "claims", claims)

    @property
    def headers(self) -> dict[str, str]:
        claims: dict[str, Any] = vars(self)["claims"]
        return {
            "Authorization": f"Bearer {token(self.user, **{'roles': list(self.roles)} | claims)}",
            "X-Schema": self.tenant,
        }


def test_a_reader_sees_every_user_s_jobs_and_changes_nothing(service: Service) -> None:
    job_id = service.caller().job()
    reader = operator(service, role="reader")
    assert reader.get(f"/api/jobs/{job_id}").status_code == 200
    before = service.everything()
    for path in (f"/api/jobs/{job_id}/cancel", f"/api/jobs/{job_id}/retry", f"/api/admin/dead-letters/{job_id}/replay"):
        refused = reader.post(path)
        assert refused.status_code == 403
        assert refused.get_json()["type"].endswith("read-only")
    assert reader.submit().status_code == 403
    assert service.everything() == before
    # A ticket opens a stream: it changes nothing.
    assert reader.post("/api/stream-tickets", json={"job_id": job_id}).status_code == 200


@pytest.mark.parametrize("role", ["reader", "operator", "admin"])
def test_an_operator_of_another_company_finds_no_tenant(service: Service, role: str) -> None:
    assert operator(service, role=role, companies=["acme"]).get("/api/jobs?user=*").status_code == 200
    foreign = operator(service, role=role, companies=["umbrella"]).get("/api/jobs?user=*")
    assert foreign.status_code == 404
    assert foreign.get_json()["type"].endswith("unknown-tenant")


def test_operator_of_one_company_is_a_user_elsewhere(service: Service) -> None:
    job_id = service.caller().job()
    guest = operator(service, companies=["umbrella"], tenants=["north"])
    assert guest.get("/api/jobs").status_code == 200
    assert guest.get("/api/jobs?user=*").status_code == 403
    assert guest.get(f"/api/jobs/{job_id}").status_code == 404
    assert guest.get("/api/admin/dead-letters").status_code == 403


@pytest.mark.parametrize("companies", ["acme", [1], {}])
def test_companies_that_are_no_list_of_names_are_refused(service: Service, companies: Any) -> None:
    assert operator(service, companies=companies).get("/api/jobs").status_code == 401


def test_secrets_are_shown_to_admins_and_owners(service: Service) -> None:
    ana = service.caller()
    done, broken = ana.job(), ana.job()
    service.end(done, "completed")
    service.end(broken)
    service.rows("UPDATE background_jobs SET result = %s WHERE id = %s", '{"api_key": "hunter2", "sent": 2}', done)
    error = '{"class": "Boom", "message": "token=hunter2 was refused", "traceback": "password: \'hunter2\'"}'
    service.rows("UPDATE background_jobs SET error = %s WHERE id = %s", error, broken)
    service.rows("UPDATE background_jobs_dead_letter SET error = %s WHERE job_id = %s", error, broken)
    paths = ["/api/jobs?user=*", f"/api/jobs/{done}", f"/api/jobs/{broken}", "/api/admin/dead-letters"]
    for role in ("reader", "operator"):
        reply = [operator(service, role=role).get(path) for path in paths]
        assert [answer.status_code for answer in reply] == [200] * 4
        assert not any("hunter2" in answer.text for answer in reply)
        assert reply[1].get_json()["result"] == {"api_key": LEFT_OUT, "sent": 2}
        assert reply[2].get_json()["error"]["message"] == f"token={LEFT_OUT} was refused"
        assert "hunter2" not in operator(service, role=role).get(f"/api/jobs/{broken}/stream").text
    admin = operator(service, role="admin")
    assert all("hunter2" in admin.get(path).text for path in [*paths, f"/api/jobs/{broken}/stream"])
    assert "hunter2" in ana.get(f"/api/jobs/{done}").text


def test_ticket_stream_shows_the_issuer_s_visible_jobs(service: Service) -> None:
    job_id = service.caller().job()
    service.end(job_id)
    error = '{"class": "Boom", "message": "token=hunter2 was refused"}'
    service.rows("UPDATE background_jobs SET error = %s WHERE id = %s", error, job_id)

    def ticket(role: str) -> str:
        answered = operator(service, role=role).post("/api/stream-tickets", json={"job_id": job_id})
        return str(answered.get_json()["ticket"])

    def opened(secret: str) -> TestResponse:
        return service.app.test_client().get(f"/api/jobs/{job_id}/stream?ticket={secret}", multithread=True)

    assert "hunter2" in opened(ticket("admin")).text
    for role in ("reader", "operator"):
        reply = opened(ticket(role)).text
        assert "was refused" in reply
        assert "hunter2" not in reply
        assert opened(ticket(role) + ".admin").status_code == 401


def test_operators_read_job_logs_page_by_page(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    for number in (3, 4, 5):
        service.rows(
            "INSERT INTO background_job_logs VALUES (%s, 1, %s, now(), 'INFO', 'shop', 'token=hunter2 was refused')",
            job_id,
            number,
        )
    logs = f"/api/admin/jobs/{job_id}/logs"
    assert ana.get(logs).status_code == 403
    assert operator(service, tenant="south").get(logs).status_code == 404
    reader = operator(service, role="reader")
    first = reader.get(f"{logs}?limit=2").get_json()
    assert first["next_cursor"] == "1.4"
    last = reader.get(f"{logs}?limit=2&cursor=1.4").get_json()
    assert [line["number"] for line in first["lines"] + last["lines"]] == [3, 4, 5]
    assert last["next_cursor"] is None
    assert {line["line"] for line in first["lines"] + last["lines"]} == {f"token={LEFT_OUT} was refused"}
    assert "hunter2" in operator(service, role="admin").get(logs).text
    for nonsense in ("x", "1", "1.", "-1.2", "1.99999999999999999999", "99999999999.1"):
        assert reader.get(f"{logs}?cursor={nonsense}").status_code == 400
