"""Guards of templates: one job for each tenant and moment, in its zone, and none while it is paused."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CONTROL = "turno/capabilities/schedule_templates/sql/control/functions"
TENANT = "turno/capabilities/schedule_templates/sql/tenant/functions"
FIRING = "tests/capabilities/schedule_templates/test_firing.py"
API = "tests/capabilities/schedule_templates/test_api.py"
ONCE = "issue 25: one firing for each tenant and moment across hosts"

MUTANTS = (
    Mutant(
        "an outdated copy of a template fires",
        ONCE,
        f"{TENANT}/template_fire.sql",
        "c.template_id = p_template AND c.next_at = p_was FOR UPDATE",
        "c.template_id = p_template FOR UPDATE",
        (f"{FIRING}::test_an_outdated_state_makes_no_job",),
    ),
    Mutant(
        "a template fires into a queue that its type lost",
        "a template may choose one of the queues of its type",
        f"{TENANT}/template_fire.sql",
        " AND (t.queue IS NULL OR t.queue = ANY (h.other_queues || h.queue::text))",
        "",
        (f"{FIRING}::test_a_job_waits_in_the_queue_of_its_template",),
    ),
    Mutant(
        "a changed template repeats a moment",
        ONCE,
        f"{TENANT}/template_fire.sql",
        "AND r.template_id = p_template AND r.moment = m.moment",
        "AND r.template_id = p_template AND r.moment > m.moment",
        (f"{FIRING}::test_changed_rule_or_clock_makes_no_moment_twice",),
    ),
    Mutant(
        "a new tenant has no copies",
        "issue 25: a template applies to present and future tenants",
        f"{CONTROL}/template_tenant_changed.sql",
        "IF NEW.state = 'active' THEN",
        "IF NEW.state = 'nowhere' THEN",
        (f"{FIRING}::test_a_new_tenant_gets_a_copy_and_a_removed_one_leaves_none",),
    ),
    Mutant(
        "a template ignores the zone of the tenant",
        "issue 25: in the tenant's time zone",
        f"{CONTROL}/templates_due.sql",
        "coalesce(z.zone, t.zone), t.spread",
        "t.zone, t.spread",
        (f"{FIRING}::test_a_tenant_s_zone_replaces_the_template_s",),
    ),
    Mutant(
        "a paused copy of a template fires",
        "issue 25: a tenant may pause its copy",
        f"{TENANT}/template_copy_switch.sql",
        "WHEN p_pause OR own.all_paused THEN 'infinity'",
        "WHEN own.all_paused THEN 'infinity'",
        (f"{FIRING}::test_a_paused_copy_makes_no_job_and_misses_none",),
    ),
    Mutant(
        "a resumed copy of a paused template fires",
        "issue 25: operators manage templates",
        f"{TENANT}/template_copy_switch.sql",
        "WHEN p_pause OR own.all_paused THEN 'infinity'",
        "WHEN p_pause THEN 'infinity'",
        (f"{FIRING}::test_a_resumed_copy_of_a_paused_template_rests",),
    ),
    Mutant(
        "the templates of a paused tenant fire",
        "section 8: an operator may pause a tenant",
        f"{CONTROL}/templates_due.sql",
        "n.state = 'active' AND n.paused_at IS NULL",
        "n.state = 'active'",
        (f"{FIRING}::test_a_paused_tenant_waits",),
    ),
    Mutant(
        "an operator of one company changes all tenants",
        "section 5: operators of a company change no other company",
        "turno/capabilities/schedule_templates/admin_api.py",
        '"POST /api/admin/templates/<name>/pause", everywhere=True,',
        '"POST /api/admin/templates/<name>/pause",',
        (f"{API}::test_only_operators_of_every_company_change_templates",),
    ),
)
