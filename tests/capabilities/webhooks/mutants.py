"""Guards of webhooks and mails: their receivers, their order, and that none is lost or given up unseen."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TAKE = "turno/capabilities/webhooks/sql/control/functions/webhooks_take.sql"
COUNT = "turno/capabilities/webhooks/sql/control/functions/webhooks_due.sql"
OF_WEBHOOKS = "tests/capabilities/webhooks/test_webhooks.py"
AT_LEAST_ONCE = "decision 73: a webhook comes at least once"

MUTANTS = (
    Mutant(
        "a receiver that fails all day is reported after the day",
        "section 10: a trouble names its cause while it can be repaired",
        "turno/capabilities/webhooks/stored.py",
        " OR ended_at < clock_timestamp() - %s::interval",
        " OR ended_at < clock_timestamp() - 144 * %s::interval",
        (f"{OF_WEBHOOKS}::test_delivery_without_success_for_ten_minutes_is_a_trouble",),
    ),
    Mutant(
        "a webhook reaches private addresses",
        "decision 73: no outside user chooses this host's calls",
        "turno/capabilities/webhooks/post.py",
        "if private or _is_public(str(address))",
        "if address",
        ("tests/capabilities/webhooks/test_addresses.py::test_a_name_that_leads_to_a_private_address_is_not_called",),
    ),
    Mutant(
        "a webhook reaches the private address that a public one embeds",
        "decision 73: no outside user chooses this host's calls",
        "turno/capabilities/webhooks/post.py",
        "            yield last\n",
        "            pass\n",
        ("tests/capabilities/webhooks/test_addresses.py::test_a_name_that_leads_to_an_embedded_address_is_refused",),
    ),
    Mutant(
        "a webhook leads to any host",
        "decision 73: no outside user chooses this host's calls",
        "turno/capabilities/webhooks/submission.py",
        "return url_problem(url, allowed.webhook_hosts)",
        "return None",
        ("tests/integration/web/test_api_submit.py::test_a_webhook_leads_to_hosts_that_the_operator_names",),
    ),
    Mutant(
        "a retry is delivered as an end",
        AT_LEAST_ONCE,
        COUNT,
        "WHERE job_id IS NOT NULL AND is_end(outcome)",
        "WHERE job_id IS NOT NULL AND outcome <> 'rescued'",
        ("tests/capabilities/webhooks/test_mail_at_the_end.py::test_one_mail_is_sent_per_end_despite_retries",),
    ),
    Mutant(
        "counting waits for a tenant that is being removed",
        "promise 9: a tenant's failure affects only that tenant",
        COUNT,
        " FOR UPDATE OF o SKIP LOCKED",
        " FOR UPDATE OF o",
        (f"{OF_WEBHOOKS}::test_locked_delivery_delays_no_tenant",),
    ),
    Mutant(
        "a delivery under way is sent by another process, too",
        AT_LEAST_ONCE,
        TAKE,
        "SET due_at = clock_timestamp() + p_lease",
        "SET due_at = c.due_at",
        (f"{OF_WEBHOOKS}::test_a_delivery_not_recorded_is_repeated_uncounted",),
    ),
    Mutant(
        "webhooks wait for handlers that cannot be loaded",
        "promise 9: a failure of one part stops no other",
        "turno/capabilities/webhooks/delivery.py",
        "        self._settings = settings\n",
        "        self._settings = settings\n        _catalogues(settings.handlers)\n",
        (f"{OF_WEBHOOKS}::test_webhooks_need_no_handlers",),
    ),
    Mutant(
        "a tenant's deliveries precede all others",
        "promise 9: a tenant's failure affects only that tenant",
        TAKE,
        "ORDER BY due.position, random()",
        "ORDER BY t.id, due.position",
        (f"{OF_WEBHOOKS}::test_tenant_with_many_deliveries_has_no_priority",),
    ),
    Mutant(
        "silent receivers take every call",
        "promise 9: a tenant's failure affects only that tenant",
        "turno/capabilities/webhooks/delivery.py",
        "len(in_flight), busy=busy)",
        "len(in_flight), busy=())",
        (f"{OF_WEBHOOKS}::test_silent_receiver_delays_no_tenant",),
    ),
    Mutant(
        "a delivery is tried for ever",
        AT_LEAST_ONCE,
        "turno/capabilities/webhooks/delivery.py",
        "PAUSES[delivery.attempts :]",
        "PAUSES",
        (f"{OF_WEBHOOKS}::test_a_delivery_refused_for_a_day_is_given_up",),
    ),
    Mutant(
        "a mail goes to an unverified address",
        "decision 77: no user makes this service write to others",
        "turno/web/auth.py",
        'verified = claims.get("email_verified", True) is True',
        "verified = True",
        ("tests/integration/web/test_api_submit.py::test_mail_goes_only_to_the_address_in_the_token",),
    ),
    Mutant(
        "a user has any number of mails sent",
        "decision 77: no user makes this service write to others",
        "turno/capabilities/webhooks/submission.py",
        "            _count_mail(scope)\n",
        "            pass\n",
        ("tests/integration/web/test_api_submit.py::test_mail_goes_only_to_the_address_in_the_token",),
    ),
    Mutant(
        "a recipient that there is not is tried for a day",
        "decision 77: a mail server's final refusal is seen at once",
        "turno/capabilities/webhooks/delivery.py",
        "if code >= REFUSED_FOR_GOOD:",
        "if False:",
        ("tests/capabilities/webhooks/test_mail_at_the_end.py::test_unknown_recipient_is_given_up_at_once",),
    ),
    Mutant(
        "an operator's address receives other tenants' ends",
        "decision 77: an address receives exactly its selected ends",
        "turno/capabilities/webhooks/sql/control/functions/webhooks_due.sql",
        "coalesce(a.tenant_id, e.tenant_id) = e.tenant_id AND",
        "",
        ("tests/capabilities/webhooks/test_operators_addresses.py::test_address_receives_ends_of_its_tenant_and_type",),
    ),
    Mutant(
        "webhooks of other companies are settled",
        "promise 5: no tenant can read or change another's",
        "turno/capabilities/webhooks/sql/control/functions/webhooks_settle.sql",
        "          AND (p_companies IS NULL OR f.company = ANY (p_companies))\n",
        "",
        ("tests/capabilities/webhooks/test_operators_addresses.py::test_a_discarded_one_is_tried_no_more",),
    ),
    Mutant(
        "due deliveries are found among the rows of open jobs",
        "promise 7: the cost of finding does not grow",
        "turno/capabilities/webhooks/sql/control/schema/0001_webhooks.sql",
        "ON webhooks (tenant_id, due_at) WHERE due_at < 'infinity'",
        "ON webhooks (tenant_id)",
        ("tests/capabilities/webhooks/test_webhooks.py::test_taking_reads_no_delivery_of_an_open_job",),
    ),
)
