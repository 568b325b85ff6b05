"""Guards of the pages: whose browser it is, and which site made it ask."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SESSION = "tests/integration/test_pages_session.py"
PAGES = "tests/integration/test_pages.py"
PUBLIC = "tests/integration/test_public_url.py"
ORIGINS = "tests/integration/test_other_origins.py"
GREEN = "tests/integration/test_green.py"
PROBLEMS = "tests/integration/test_problem_pages.py"
HONEST = "section 9: see which orders failed; a batch is done only if nothing of it failed"
OPERATORS = "section 8: no SQL in what is answered; a database's own words are for operators"
COOKIE = "section 8: an HttpOnly SameSite cookie with CSRF protection"

MUTANTS = (
    Mutant(
        "a database's own words are shown to everybody",
        OPERATORS,
        "app/web/pages/job_page.py",
        "told = of_job if visit.scope.principal.operator else of_event",
        "told = of_job",
        (f"{PAGES}::test_reasons_are_told_in_spanish_and_what_is_no_code_to_operators_alone",),
    ),
    Mutant(
        "another site may use the cookie through the API",
        COOKIE,
        "app/web/credentials.py",
        "        require_own_site(request)\n",
        "        pass\n",
        (f"{SESSION}::test_no_other_site_uses_the_cookie_to_change_anything",),
    ),
    Mutant(
        "another site may sign somebody in",
        COOKIE,
        "app/web/pages/sign_in.py",
        '    """Sign in with a token that was pasted."""\n    require_own_site(request)\n',
        '    """Sign in with a token that was pasted."""\n',
        (f"{SESSION}::test_no_other_site_signs_anybody_in_or_out",),
    ),
    Mutant(
        "the demo lets in whoever's name leads to it",
        COOKIE,
        "app/web/pages/sign_in.py",
        " or not asked_on_this_machine(request)",
        "",
        (f"{SESSION}::test_the_demo_lets_nobody_in_by_a_name_that_may_be_made_to_lead_here",),
    ),
    Mutant(
        "who does not say where from is let in",
        COOKIE,
        "app/web/own_site.py",
        "origin is not None and urlsplit",
        "origin is None or urlsplit",
        (f"{SESSION}::test_no_other_site_uses_the_cookie_to_change_anything",),
    ),
    Mutant(
        "a form needs no token",
        COOKIE,
        "app/web/pages/page_routes.py",
        "    if not hmac.compare_digest(",
        "    if False and not hmac.compare_digest(",
        (f"{SESSION}::test_a_form_without_the_session_s_token_is_refused",),
    ),
    Mutant(
        "every session has the same form token",
        COOKIE,
        "app/web/session_cookie.py",
        "hmac.new(token.encode(),",
        'hmac.new(b"turno",',
        (f"{SESSION}::test_one_session_s_forms_are_no_use_in_another",),
    ),
    Mutant(
        "scripts may read the cookie",
        COOKIE,
        "app/web/session_cookie.py",
        "        httponly=True,\n",
        "",
        (f"{SESSION}::test_the_cookie_is_out_of_reach_of_scripts_and_other_sites",),
    ),
    Mutant(
        "a neighbouring host may plant a session",
        COOKIE,
        "app/web/session_cookie.py",
        "return _SECURE if over_https(request) else _PLAIN",
        "return _PLAIN",
        (f"{SESSION}::test_over_https_a_cookie_that_a_neighbour_could_plant_is_no_session",),
    ),
    Mutant(
        "a proxy that is not believed takes Secure from the cookies",
        COOKIE,
        "app/web/public_url.py",
        "return request.is_secure or ",
        "return request.is_secure or False and ",
        (f"{PUBLIC}::test_every_cookie_is_secure_and_hsts_is_sent_whatever_headers_arrive",),
    ),
    Mutant(
        "a session begins without TLS",
        COOKIE,
        "app/web/pages/sign_in.py",
        "if over_https(request) and not request.is_secure:",
        "if False:",
        (f"{PUBLIC}::test_a_session_begins_over_https_alone",),
    ),
    Mutant(
        "every host is ours",
        COOKIE,
        "app/web/public_url.py",
        "if request.blueprint == PROBES or host_is_trusted(",
        "if True or host_is_trusted(",
        (f"{PUBLIC}::test_no_other_host_counts_as_ours",),
    ),
    Mutant(
        "everybody may say that a request came over TLS",
        "TRUSTED_PROXIES: this machine alone unless named",
        "cli/web_server.py",
        '",".join(settings.trusted_proxies)',
        '"*"',
        (f"{PUBLIC}::test_the_proxies_that_are_named_are_believed_and_nobody_else",),
    ),
    Mutant(
        "a header may say which path was asked for",
        "TRUSTED_PROXIES: a scheme, and nothing else",
        "cli/web_server.py",
        '        "forwarder_headers": "",\n',
        "",
        (f"{PUBLIC}::test_the_proxies_that_are_named_are_believed_and_nobody_else",),
    ),
    Mutant(
        "the sign-in leads anywhere",
        COOKIE,
        "app/web/pages/drawing.py",
        'return "/" if foreign or not address.isprintable() else address',
        "return address",
        (f"{SESSION}::test_the_sign_in_leads_nowhere_else",),
    ),
    Mutant(
        "a second press starts a second batch",
        "section 6: one key and one body are one job",
        "app/web/pages/commands.py",
        "        idempotency_key=key,\n",
        "",
        (f"{PAGES}::test_a_form_sent_again_is_the_same_job",),
    ),
    Mutant(
        "a page shows other users' jobs",
        "section 8: foreign and unknown ids give the same 404",
        "app/web/pages/job_page.py",
        "visit.scope.visible_user)",
        "None)",
        (f"{PAGES}::test_nobody_sees_or_touches_what_is_another_s",),
    ),
    Mutant(
        "a user's browser shows again what an operator was told",
        OPERATORS,
        "app/web/jobs.py",
        'f"{body.etag}.operator" if operator else body.etag',
        "body.etag",
        ("tests/integration/test_api_jobs.py::test_an_operator_s_answer_is_never_taken_for_a_user_s",),
    ),
    Mutant(
        "whatever somebody sent is offered to be sent again",
        "a problem's page repeats no more than a form of ours",
        "app/web/pages/problem_page.py",
        " and len(fields) <= MOST_FIELDS",
        "",
        (f"{PROBLEMS}::test_only_a_form_of_this_session_is_offered_again",),
    ),
    Mutant(
        "a branch's lock is told as a fault",
        "section 8: 503 with Retry-After while the database cannot serve",
        "app/web/pages/problem_page.py",
        "        pages.register_error_handler(outage, _unavailable)",
        "        pages.register_error_handler(outage, _fault)",
        (f"{PROBLEMS}::test_a_locked_branch_is_told_in_the_frame_with_when_to_try_again",),
    ),
    Mutant(
        "a batch is done though some of it failed",
        HONEST,
        "app/jobs/label.py",
        "    if not failed:\n",
        "    if done or not failed:\n",
        (f"{GREEN}::test_a_batch_is_done_only_if_nothing_of_it_failed",),
    ),
    Mutant(
        "one failed of many is too narrow to be seen",
        HONEST,
        "app/web/templates/pages/parts.html",
        "{{ 6 if p.failed else 0 }}",
        "0",
        (f"{GREEN}::test_one_failed_of_five_hundred_is_seen_in_the_bar",),
    ),
    Mutant(
        "every origin may use the API",
        "ALLOWED_ORIGINS: none unless named",
        "app/web/other_origins.py",
        'request.headers.get("Origin") in services().settings.allowed_origins',
        'bool(request.headers.get("Origin"))',
        (f"{ORIGINS}::test_no_other_origin_may",),
    ),
)
