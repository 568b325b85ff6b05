"""Guards of schedules and templates: one job for each moment, none while paused, and none without permission."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ONCE = "issue 17: one firing across hosts, under faults and clock steps"
SWEEPS = "tests/capabilities/schedules/test_firing_due.py"
RULES = "tests/capabilities/schedules/test_recurrence.py"
FIRING = "tests/capabilities/schedules/test_moments.py"
FIRE = "turno/capabilities/schedules/sql/tenant/functions/schedule_fire.sql"
PUT = "turno/capabilities/schedules/sql/tenant/functions/schedule_put.sql"
TASK = "turno/capabilities/schedules/firing.py"
DUE = "turno/capabilities/schedules/sql/control/functions/schedules_due.sql"
CONTROL = "turno/capabilities/schedules/sql/control/functions"
TENANT = "turno/capabilities/schedules/sql/tenant/functions"
TEMPLATES = "tests/capabilities/schedules/test_templates_firing.py"
TEMPLATES_API = "tests/capabilities/schedules/test_templates_api.py"
TEMPLATES_ONCE = "issue 25: one firing for each tenant and moment across hosts"

MUTANTS = (
    Mutant(
        "a sweep with an older state of a schedule fires it",
        ONCE,
        FIRE,
        "s.id = p_rule AND s.next_at = p_was FOR UPDATE",
        "s.id = p_rule FOR UPDATE",
        (f"{SWEEPS}::test_outdated_schedule_makes_no_job",),
    ),
    Mutant(
        "a clock set back stops a schedule until that time comes again",
        ONCE,
        DUE,
        "s.next_at IS NOT NULL AND s.decided_at > present",
        "s.next_at IS NULL AND s.decided_at > present",
        (f"{SWEEPS}::test_clock_set_back_repeats_and_stops_no_moment",),
    ),
    Mutant(
        "a recurring job accepts a queue that its type does not allow",
        "a schedule may choose one of the queues of its type",
        "turno/capabilities/schedules/recurring_job.py",
        "queue_of(self.handler, self.queue)",
        "queue_of(self.handler, None)",
        ("tests/capabilities/schedules/test_api.py::test_queue_of_a_schedule_is_saved_shown_and_replaced",),
    ),
    Mutant(
        "a schedule ignores its queue",
        "a schedule may choose one of the queues of its type",
        FIRE,
        "coalesce(rule.queue, h.queue)",
        "h.queue",
        (f"{SWEEPS}::test_a_job_waits_in_the_queue_of_its_schedule",),
    ),
    Mutant(
        "a changed schedule leaves the jobs of its old rule",
        "issue 17: schedules are editable",
        PUT,
        "            PERFORM schedule_take_back(own.id);\n",
        "",
        (f"{SWEEPS}::test_change_takes_back_exactly_the_future_jobs",),
    ),
    Mutant(
        "a schedule is replaced by any user who knows its name",
        "section 8: users see and change their own",
        PUT,
        "IF p_only <> own.user_id THEN",
        "IF p_only <> p_only THEN",
        ("tests/capabilities/schedules/test_api.py::test_only_owner_and_operator_see_and_change_a_schedule",),
    ),
    Mutant(
        "the schedules of a paused tenant fire",
        "section 8: an operator may pause a tenant",
        DUE,
        "n.state = 'active' AND n.paused_at IS NULL",
        "n.state = 'active'",
        (f"{SWEEPS}::test_a_paused_tenant_waits_and_a_removed_one_is_gone",),
    ),
    Mutant(
        "a worker at rest sleeps past a due moment",
        "issue 17: firing error p99 <= 1 s",
        "turno/worker/sources/polling.py",
        "else min(due_in, self._interval * (0.8 + 0.4 * chance)))",
        "else self._interval * (0.8 + 0.4 * chance))",
        ("tests/unit/worker/test_pool_source.py::test_empty_source_looks_at_the_next_due_time",),
    ),
    Mutant(
        "a cron expression's delay is lost",
        "issue 28: relative delays of schedules",
        "turno/capabilities/schedules/recurrence.py",
        "offset=delay + offset)",
        "offset=offset)",
        (f"{RULES}::test_a_delay_reaches_beyond_cron",),
    ),
    Mutant(
        "a time that exists twice fires twice",
        "issue 17: time zones and daylight saving",
        "turno/capabilities/schedules/recurrence.py",
        'if not any(field.startswith("*") for field in self._expression.split()[:2]):',
        "if not self._expression:",
        (f"{RULES}::test_a_time_that_exists_twice_fires_the_first_time",),
    ),
    Mutant(
        "a schedule continues when a hundred of its jobs wait",
        "issue 17: missed runs have a bound",
        FIRE,
        "ELSIF cardinality(rule.open_jobs) >= p_most_open THEN",
        "ELSIF false THEN",
        (f"{SWEEPS}::test_an_unknown_type_and_a_backlog_say_so_and_make_nothing",),
    ),
    Mutant(
        "a missed moment gets a job although it is to be skipped",
        "issue 17: missed runs (skip, once, all up to a bound)",
        "turno/capabilities/schedules/recurrence.py",
        'if overdue and (missed == "all" or (missed == "once" and not punctual)):',
        "if overdue:",
        (f"{FIRING}::test_missed_moments",),
    ),
    Mutant(
        "at most a hundred missed moments are counted",
        "missed_runs counts the moments without a job",
        "turno/capabilities/schedules/recurrence.py",
        "overdue = rule.count(next_at, now - LATE)",
        "overdue = min(MOST_MISSED, rule.count(next_at, now - LATE))",
        (f"{FIRING}::test_every_missed_moment_of_a_year_is_counted",),
    ),
    Mutant(
        "an ended job counts as open",
        "a job that stays open stops no schedule",
        FIRE,
        "j.id = ANY (rule.open_jobs) AND j.finished_at IS NULL",
        "j.id = ANY (rule.open_jobs)",
        (f"{SWEEPS}::test_a_job_that_stays_open_stops_no_schedule",),
    ),
    Mutant(
        "each schedule of a locked table waits for the lock",
        "promise 9: a tenant's locks delay no other tenant",
        "turno/maintenance/each_tenant.py",
        "tries: int = 1",
        "tries: int = 5",
        (f"{SWEEPS}::test_a_locked_table_costs_one_lock_timeout",),
    ),
    Mutant(
        "a refused schedule ends its tenant's turn",
        "a schedule affects no other schedule",
        TASK,
        "if busy(error) or unreachable(error):",
        "if error:",
        (f"{SWEEPS}::test_refused_schedule_stops_no_schedule",),
    ),
    Mutant(
        "a host without zone data moves the schedule",
        "a host without required data leaves the row unchanged",
        TASK,
        "return Firing([], due.next_at, 0),",
        "return Firing([], due.now + timedelta(hours=1), 0),",
        (f"{SWEEPS}::test_a_host_without_zone_data_leaves_the_schedule_due",),
    ),
    Mutant(
        "a missing hour fires each minute's jobs at the change of the clocks",
        "issue 17: time zones and daylight saving",
        "turno/capabilities/schedules/recurrence.py",
        "if moment.astimezone(zone).replace(tzinfo=None) == naive:",
        "if moment:",
        (f"{RULES}::test_a_day_without_midnight_keeps_its_minutes",),
    ),
    Mutant(
        "jobs of schedules bypass their user's quota",
        "schedules count in the user's quota of open jobs",
        "turno/capabilities/schedules/sql/tenant/functions/schedule_fire.sql",
        "AND quota_reached(rule.user_id, user_limit)",
        "AND false",
        ("tests/capabilities/schedules/test_firing_due.py::test_open_jobs_of_schedules_count_in_the_quota",),
    ),
    Mutant(
        "one user takes all schedules of the tenant",
        "a user saves a tenth of the tenant's schedules",
        "turno/capabilities/schedules/sql/tenant/functions/schedule_put.sql",
        "WHERE user_id = new.user_id) >= p_most / 10",
        "WHERE user_id = new.user_id) >= p_most",
        ("tests/capabilities/schedules/test_firing_due.py::test_a_user_saves_at_most_a_tenth_of_the_schedules",),
    ),
    Mutant(
        "an outdated copy of a template fires",
        TEMPLATES_ONCE,
        FIRE,
        "c.schedule_id = p_rule AND c.next_at = p_was FOR UPDATE",
        "c.schedule_id = p_rule FOR UPDATE",
        (f"{TEMPLATES}::test_an_outdated_state_makes_no_job",),
    ),
    Mutant(
        "a template fires into a queue that its type lost",
        "a template may choose one of the queues of its type",
        FIRE,
        " AND (rule.queue IS NULL OR rule.queue = ANY (h.other_queues || h.queue::text))",
        "",
        (f"{TEMPLATES}::test_a_job_waits_in_the_queue_of_its_template",),
    ),
    Mutant(
        "a changed template repeats a moment",
        TEMPLATES_ONCE,
        FIRE,
        "AND r.template_id = rule.id AND r.moment = m.moment",
        "AND r.template_id = rule.id AND r.moment > m.moment",
        (f"{TEMPLATES}::test_changed_rule_or_clock_makes_no_moment_twice",),
    ),
    Mutant(
        "a new tenant has no copies",
        "issue 25: a template applies to present and future tenants",
        f"{CONTROL}/template_changed.sql",
        "IF NEW.state = 'active' AND",
        "IF NEW.state = 'nowhere' AND",
        (f"{TEMPLATES}::test_a_new_tenant_gets_a_copy_and_a_removed_one_leaves_none",),
    ),
    Mutant(
        "a template ignores the zone of the tenant",
        "issue 25: in the tenant's time zone",
        f"{CONTROL}/template_changed.sql",
        "coalesce(z.zone, t.zone), t.spread",
        "t.zone, t.spread",
        (f"{TEMPLATES}::test_a_tenant_s_zone_replaces_the_template_s",),
    ),
    Mutant(
        "a paused copy of a template fires",
        "issue 25: a tenant may pause its copy",
        f"{TENANT}/template_copies.sql",
        "WHEN NOT (p_pause OR own.all_paused) THEN",
        "WHEN NOT own.all_paused THEN",
        (f"{TEMPLATES}::test_a_paused_copy_makes_no_job_and_misses_none",),
    ),
    Mutant(
        "a resumed copy of a paused template fires",
        "issue 25: operators manage templates",
        f"{TENANT}/template_copies.sql",
        "WHEN NOT (p_pause OR own.all_paused) THEN",
        "WHEN NOT p_pause THEN",
        (f"{TEMPLATES}::test_a_resumed_copy_of_a_paused_template_rests",),
    ),
    Mutant(
        "the templates of a paused tenant fire",
        "section 8: an operator may pause a tenant",
        DUE,
        "n.state = 'active' AND n.paused_at IS NULL",
        "n.state = 'active'",
        (f"{TEMPLATES}::test_a_paused_tenant_waits",),
    ),
    Mutant(
        "an operator of one company changes all tenants",
        "section 5: operators of a company change no other company",
        "turno/capabilities/schedules/template_operator.py",
        '"POST /api/admin/templates/<name>/pause", everywhere=True,',
        '"POST /api/admin/templates/<name>/pause",',
        (f"{TEMPLATES_API}::test_only_operators_of_every_company_change_templates",),
    ),
)
