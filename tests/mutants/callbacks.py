"""Guards of call-backs: whom they may reach, when they come, and that none is lost or kept quiet."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TAKE = "turno/migrations/control/functions/callbacks_due.sql"
OF_CALLBACKS = "tests/integration/callbacks/test_callbacks.py"
AT_LEAST_ONCE = "decision 73: a call-back comes at least once"

MUTANTS = (
    Mutant(
        "a call-back reaches private addresses",
        "decision 73: nobody outside chooses what this host calls",
        "turno/callbacks/post.py",
        "if private or _is_public(str(one))",
        "if one",
        ("tests/unit/callbacks/test_callback_addresses.py::test_a_name_that_leads_to_a_private_address_is_not_called",),
    ),
    Mutant(
        "a call-back leads to any host",
        "decision 73: nobody outside chooses what this host calls",
        "turno/web/api/submit_body.py",
        " + _of_callback(wanted.callback_url)",
        "",
        ("tests/integration/web/test_api_submit.py::test_a_callback_leads_to_hosts_that_the_operator_names",),
    ),
    Mutant(
        "a call-back is taken before its job's end",
        AT_LEAST_ONCE,
        TAKE,
        "              AND NOT EXISTS (SELECT FROM tickets k WHERE k.job_id = c.job_id)\n",
        "",
        (f"{OF_CALLBACKS}::test_an_end_is_told_once_signed_and_names_its_job",),
    ),
    Mutant(
        "what is being sent is sent by whoever comes next",
        AT_LEAST_ONCE,
        TAKE,
        "clock_timestamp() + p_pauses[least(c.attempts + 1, cardinality(p_pauses))]",
        "c.due_at",
        (f"{OF_CALLBACKS}::test_what_was_sent_and_not_noted_is_sent_again_with_the_same_id",),
    ),
    Mutant(
        "one tenant's call-backs take every place",
        "promise 9: one tenant's trouble stays that tenant's",
        TAKE,
        "LIMIT p_each ",
        "LIMIT p_limit ",
        (f"{OF_CALLBACKS}::test_one_tenant_s_call_backs_take_no_other_s_place",),
    ),
    Mutant(
        "a call-back is tried for ever",
        AT_LEAST_ONCE,
        "turno/callbacks/rounds.py",
        "if callback.attempts < len(self._terms.pauses) and not last:",
        "if True:",
        (f"{OF_CALLBACKS}::test_what_is_refused_for_a_day_is_given_up_in_the_job_s_history",),
    ),
    Mutant(
        "a mail goes to an address that nobody verified",
        "decision 77: nobody makes this service write to others",
        "turno/web/auth/tokens.py",
        'verified = claims.get("email_verified", True) is True',
        "verified = True",
        (
            "tests/integration/web/test_api_submit.py::test_a_mail_goes_to_the_address_that_the_token_vouches_for_and_nowhere_else",
        ),
    ),
    Mutant(
        "a user has any number of mails sent",
        "decision 77: nobody makes this service write to others",
        "turno/web/api/submit_body.py",
        "admit_mail(call.scope)",
        "pass",
        (
            "tests/integration/web/test_api_submit.py::test_a_mail_goes_to_the_address_that_the_token_vouches_for_and_nowhere_else",
        ),
    ),
    Mutant(
        "a recipient that there is not is tried for a day",
        "decision 77: what a mail server refuses for good is seen at once",
        "turno/callbacks/end_mail.py",
        "if code >= REFUSED_FOR_GOOD:",
        "if False:",
        (
            "tests/integration/callbacks/test_mail_at_the_end.py::test_a_recipient_that_the_server_does_not_know_is_given_up_at_once_and_seen",
        ),
    ),
    Mutant(
        "an operator's address is told of other tenants' ends",
        "decision 77: an address is told of the ends that it was set for",
        "turno/migrations/control/functions/count_outcomes.sql",
        "coalesce(a.tenant_id, g.tenant_id) = g.tenant_id AND",
        "",
        (
            "tests/integration/callbacks/test_operators_addresses.py::test_an_address_is_told_of_the_ends_of_its_tenant_and_type_alone",
        ),
    ),
    Mutant(
        "call-backs of other companies are settled",
        "promise 5: no tenant can read or change another's",
        "turno/migrations/control/functions/callbacks_settle.sql",
        "          AND (p_companies IS NULL OR f.company = ANY (p_companies))\n",
        "",
        ("tests/integration/callbacks/test_operators_addresses.py::test_a_discarded_one_is_tried_no_more",),
    ),
)
