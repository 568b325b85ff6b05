"""Guards of the operator's pages: permissions and companies."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LOOKED_AT = "tests/capabilities/admin/test_browser.py"
API = "tests/capabilities/admin/test_api.py"
PAGES = "tests/capabilities/admin/test_pages.py"
FOREIGN = f"{PAGES}::test_an_operator_of_one_company_sees_nothing_of_another"
BY_COMPANY = "the operator's pages show the tenants of the companies that a token names"
OPERATORS = "section 8: admin routes are for operators only"
COUNTS = "turno/store/operator/counts.py"
TROUBLES = "turno/store/operator/troubles.py"

SHARES = "the share of a tenant is set by operators of all companies"

MUTANTS = (
    Mutant(
        "an operator of one company sets its tenants' share",
        SHARES,
        "turno/capabilities/admin/settings.py",
        "if not principal.everywhere and (shared",
        "if False and (shared",
        (
            f"{API}::test_only_operators_of_all_companies_set_shares[weight]",
            f"{PAGES}::test_unauthorised_user_changes_no_tenant",
        ),
    ),
    Mutant(
        "any user sees the operator's pages",
        OPERATORS,
        "turno/web/pages/page_routes.py",
        "        require_operator(visitor.principal)\n",
        "",
        (f"{PAGES}::test_a_tenant_s_user_sees_none_of_it[/admin]",),
    ),
    Mutant(
        "the operator's pages name every company's tenants",
        BY_COMPANY,
        COUNTS,
        'tenant_shares WHERE (%(companies)s::text[] IS NULL OR company = ANY (%(companies)s))"',
        'tenant_shares WHERE true"',
        (f"{FOREIGN}[/admin]", f"{FOREIGN}[/admin/tenants]"),
    ),
    Mutant(
        "the operator's pages count every company's queues",
        BY_COMPANY,
        COUNTS,
        """        WHERE (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))
          AND (%(tenant)s = ''""",
        "        WHERE (%(tenant)s = ''",
        (f"{FOREIGN}[/admin/queues]",),
    ),
    Mutant(
        "an operator of one company sees the jobs that workers run for another",
        BY_COMPANY,
        "turno/store/operator/run_time_settings.py",
        "AND (%(companies)s::text[] IS NULL OR o.company = ANY (%(companies)s))",
        "",
        (f"{FOREIGN}[/admin/workers]",),
    ),
    Mutant(
        "troubles of every company's tenants are shown",
        BY_COMPANY,
        TROUBLES,
        "[trouble for trouble in listed if trouble.tenant is None or trouble.tenant in theirs]",
        "listed",
        (f"{FOREIGN}[/admin]",),
    ),
    Mutant(
        "failures of every company are shown",
        BY_COMPANY,
        "turno/migrations/control/functions/failing_jobs.sql",
        "WHERE p_companies IS NULL OR company = ANY (p_companies)\n",
        "",
        (f"{PAGES}::test_failed_items_are_failures_on_every_page",),
    ),
    Mutant(
        "paused types of every company are shown",
        BY_COMPANY,
        TROUBLES,
        " AND (%s::text[] IS NULL OR c.slug = ANY (%s))",
        " AND (%s::text[] IS NULL OR %s IS NOT NULL)",
        (f"{PAGES}::test_paused_type_is_shown_to_the_company_of_its_jobs",),
    ),
    Mutant(
        "unserved jobs of every company are shown",
        BY_COMPANY,
        TROUBLES,
        "lane if companies is None else _within(cursor, lane, companies)",
        "lane",
        (f"{PAGES}::test_problems_come_first_with_time_and_remedy",),
    ),
    Mutant(
        "a reader changes operators' settings",
        OPERATORS,
        "turno/web/pages/page_routes.py",
        "            require_change(visitor.principal)\n",
        "            pass\n",
        (f"{PAGES}::test_unauthorised_user_changes_no_tenant",),
    ),
    Mutant(
        "a form of no page of ours changes a tenant",
        "decision 0021: forms carry a token of the session",
        "turno/web/pages/page_routes.py",
        "    if not hmac.compare_digest(",
        "    if False and not hmac.compare_digest(",
        (f"{PAGES}::test_unauthorised_user_changes_no_tenant",),
    ),
    Mutant(
        "another site changes a tenant",
        "decision 0021: a change of state comes from our own origin",
        "turno/web/pages/page_routes.py",
        "    require_same_origin(request)\n",
        "",
        (f"{PAGES}::test_unauthorised_user_changes_no_tenant",),
    ),
    Mutant(
        "an operator of one company stops all workers",
        BY_COMPANY,
        "turno/capabilities/admin/overview.py",
        '@overview.form("/admin/workers/<worker_id>", everywhere=True)',
        '@overview.form("/admin/workers/<worker_id>")',
        (f"{PAGES}::test_workers_page_is_for_operators_of_all_companies",),
    ),
    Mutant(
        "dead letters of every company are replayed",
        BY_COMPANY,
        "turno/capabilities/admin/jobs_page.py",
        "companies=visit.companies,",
        "companies=None,",
        (f"{FOREIGN}[/admin/failures]", f"{PAGES}::test_an_operator_of_one_company_replays_nothing_of_another"),
    ),
    Mutant(
        "a look at a replay replays",
        "bulk replay after a dry run",
        "turno/capabilities/admin/jobs_page.py",
        "dry_run=True, after",
        "dry_run=False, after",
        (f"{PAGES}::test_dead_letters_group_by_error_and_replay_after_preview",),
    ),
    Mutant(
        "a replay takes jobs that failed after the look",
        "the button shows the count",
        "turno/capabilities/admin/jobs_page.py",
        "            until=until,\n",
        "",
        (f"{PAGES}::test_dead_letters_group_by_error_and_replay_after_preview",),
    ),
    Mutant(
        "an operator of one company changes a shared setting by a form",
        BY_COMPANY,
        "turno/capabilities/admin/settings.py",
        '@setting_pages.form("/admin/types/<name>", everywhere=True)',
        '@setting_pages.form("/admin/types/<name>")',
        (f"{PAGES}::test_type_settings_form_shows_the_values_of_the_code",),
    ),
    Mutant(
        "a command passes over a filter that only tenants know",
        "bulk actions change exactly the listed jobs",
        "turno/store/operator/job_search.py",
        "        if self.of_tenants:\n            raise",
        "        if False:\n            raise",
        (f"{PAGES}::test_bulk_change_refuses_filters_only_tenants_know",),
    ),
    Mutant(
        "operators read secrets of a payload",
        "redaction by rule",
        "turno/capabilities/admin/job_page.py",
        "    if payload is not None and scope.hides:\n",
        "    if False:\n",
        (f"{PAGES}::test_job_page_shows_its_whole_life",),
    ),
    Mutant(
        "a traceback is mostly Turno's",
        "traceback without our frames",
        "turno/jobs/error_record.py",
        '"" if _OURS.search(frame["file"]) else frame[0]',
        "frame[0]",
        ("tests/unit/jobs/test_traceback_text.py::test_our_frames_are_left_out_and_theirs_stay",),
    ),
    Mutant(
        "a hidden page continues to request",
        "refreshing stops when the tab is hidden",
        "turno/web/static/admin.js",
        "  if (document.hidden) return;\n",
        "",
        (f"{LOOKED_AT}::test_page_is_live_while_visible_and_silent_while_hidden",),
    ),
    Mutant(
        "the API lists every company's jobs",
        BY_COMPANY,
        "turno/capabilities/admin/jobs.py",
        "        companies=call.principal.companies,\n",
        "        companies=None,\n",
        (f"{API}::test_an_operator_of_another_company_is_shown_none_of_it",),
    ),
    Mutant(
        "an operator finds a secret by searching payloads",
        "redaction by rule",
        "turno/capabilities/admin/jobs.py",
        '    if wanted.text and principal.role != "admin":\n',
        "    if False:\n",
        (
            f"{API}::test_job_search_covers_tenants_of_token_companies",
            f"{PAGES}::test_job_search_uses_the_tenants_own_fields",
        ),
    ),
    Mutant(
        "the API looks into every company's tenants",
        BY_COMPANY,
        "turno/capabilities/admin/jobs.py",
        "        companies=principal.companies,\n",
        "        companies=None,\n",
        (f"{API}::test_job_search_covers_tenants_of_token_companies",),
    ),
    Mutant(
        "a rerun stores the mark of a hidden secret",
        "redaction by rule",
        "turno/capabilities/admin/job_page.py",
        'if text != texts.get(name, "")}',
        "}",
        (f"{PAGES}::test_rerun_form_submits_an_edited_payload_once",),
    ),
    Mutant(
        "a form that is sent twice makes two jobs",
        "reloading repeats nothing",
        "turno/capabilities/admin/job_page.py",
        "payload, form_key())",
        "payload, None)",
        (f"{PAGES}::test_rerun_form_submits_an_edited_payload_once",),
    ),
    Mutant(
        "an operator of one company acts on a job of another",
        BY_COMPANY,
        "turno/web/pages/page_routes.py",
        "        if not scope.principal.operator:\n",
        "        if False:\n",
        (f"{PAGES}::test_user_of_a_foreign_tenant_acts_on_none_of_its_jobs",),
    ),
    Mutant(
        "filters suggest the tenants of every company",
        BY_COMPANY,
        "turno/store/operator/counts.py",
        "n.state = 'active' AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))",
        "n.state = 'active'",
        (f"{PAGES}::test_filters_suggest_tenants_types_and_errors",),
    ),
    Mutant(
        "the rest of a large change begins with its refused jobs",
        "bulk actions reach every listed job",
        "turno/capabilities/admin/jobs_page.py",
        "**query.chosen, after=query.id, notice",
        "**query.chosen, notice",
        (f"{PAGES}::test_bulk_change_counts_all_and_continues",),
    ),
)
