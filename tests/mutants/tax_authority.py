"""Guards of the tax authority's client: a granted voucher is never taken for refused, nor an unknown one for absent."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SERVICE = "tax_authority"
CLIENT, WSFE = f"{SERVICE}/client.py", f"{SERVICE}/wsfe.py"
WITH_STUB = "tests/integration/tax_authority/test_client_and_stub.py"
REPLIES = "tests/unit/tax_authority/test_replies.py"
WORK = f"{WITH_STUB}::test_reported_authorisation_agrees_with_the_effect"
NEVER_BLIND = "section 6: nothing is ever issued blind"

MUTANTS = (
    Mutant(
        "the refusal of a repeated request is taken for the voucher's",
        NEVER_BLIND,
        CLIENT,
        "if last >= voucher.number:",
        "if False:",
        (f"{WORK}[twice]",),
    ),
    Mutant(
        "an error of the authority's own is taken for a refusal",
        NEVER_BLIND,
        WSFE,
        "if any(code < FIRST_REFUSAL for code in codes):",
        "if False:",
        (f"{WORK}[internal]", f"{REPLIES}::test_any_other_answer_is_unclear"),
    ),
    Mutant(
        "an answer about another voucher is accepted for this voucher",
        NEVER_BLIND,
        WSFE,
        "if _number(element, path + name) != value:",
        "if False:",
        (f"{WORK}[other]", f"{REPLIES}::test_look_up_with_another_answer_is_unclear"),
    ),
    Mutant(
        "a failed look-up reports an absent voucher",
        NEVER_BLIND,
        WSFE,
        "if not outcome and reasons and {code for code, _ in reasons} == {NO_SUCH_VOUCHER}:",
        "if not outcome:",
        (f"{REPLIES}::test_look_up_with_another_answer_is_unclear",),
    ),
    Mutant(
        "a login without an answer leaves a voucher in doubt that was never sent",
        "section 6: unknown parks the job for a person, so a known effect must not be unknown",
        f"{SERVICE}/wsaa.py",
        'raise AuthorityUnreachable(f"the tax authority\'s login gave no ticket: {error}") from error',
        "raise",
        (f"{REPLIES}::test_a_login_that_gives_no_ticket_leaves_no_doubt",),
    ),
    Mutant(
        "a ticket that is refused is kept",
        "promise 9: one tenant's trouble stays that tenant's",
        CLIENT,
        "self.tickets.ticket(service, renew, refused=ticket)",
        "self.tickets.ticket(service, renew)",
        ("tests/integration/tax_authority/test_rules.py::test_one_ticket_serves_all_calls_until_refused",),
    ),
)
