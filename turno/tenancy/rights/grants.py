"""Who may do what: the one list. What it does not name is revoked from everybody but the owner."""

from turno.tenancy.rights.matrix import Kind, Matrix, Policy, Rights, Role, Roles


def _may(**rights: str) -> Rights:
    return {Role(role): frozenset(words.split()) for role, words in rights.items()}


def _roles(words: str) -> Roles:
    return frozenset(Role(word) for word in words.split())


_OWN_ROWS = "(tenant_id = ( SELECT tenant_of(CURRENT_USER) AS tenant_of))"
_READ_WRITE = "SELECT INSERT UPDATE DELETE"
_READ_JOBS = _may(handler="SELECT", api="SELECT")
_EFFECT_COLUMNS = (
    "key type outside_key state result job_id attempt calls caller_gone waiting intended_at settled_at settled_by"
)

# Called by `claim`, `claim_job`, `claim_message` and `promote` alone, which have pinned the path.
_CLAIM_STEPS = frozenset(
    {
        "due_of_each",
        "goes_before",
        "let_run",
        "make_ready",
        "parts_look",
        "tenant_capacity",
        "type_capacity",
        "worker_hold",
    }
)

# Called by those, and by the trigger `key_moved`, which has pinned the path.
_KEY_STEPS = frozenset({"key_admit", "key_look", "key_next", "keys_look"})

# Called by `command_take` and `submission_take` alone.
_RATE_STEPS = frozenset({"rate_cost", "rate_take"})

# Called by `enqueue`, `enqueue_many` and `publish` alone.
_ENQUEUE_STEPS = frozenset(
    {
        "enqueue_target",
        "tenant_for_caller",
        "refuse_verdict",
        "hint_at_commit",
        "not_enqueued",
        "backend_now",
        "caller_may_use",
    }
)

# Put into the operator's own statements, and into `count_outcomes`, which has pinned the path.
_OUTCOME_STEPS = frozenset(
    {
        *("outcome_bounds", "outcome_sums", "tenant_load_sums", "loads_of", "recent_end_sums", "wait_at"),
        *("uncounted_ends", "uncounted_loads", "uncounted_outcomes", "is_end"),
    }
)

# Not granted one by one: an owner role per tenant would outgrow the row of pg_class at some
# 500 tenants, so all owners get these rights through the one group they are members of.
CONTROL = Matrix(
    usage=_roles("owners engine web operator host"),
    functions={
        "enqueue": _roles("host"),
        "enqueue_many": _roles("host"),
        "publish": _roles("host"),
        "announce": _roles("engine"),
        "prune_announcements": _roles("engine"),
        "uuid_v7": _roles("owners"),
        "tenant_of": _roles("owners"),
        "worker_start": _roles("engine"),
        "lacking": _roles("owners"),
        "unserved": _roles("engine operator"),
        "worker_alive": _roles("engine"),
        "lease_age": _roles("engine"),
        "lease_take": _roles("engine"),
        "worker_stop": _roles("engine"),
        "worth_staying": _roles("engine"),
        "prune_workers": _roles("engine"),
        "silent_workers": _roles("engine"),
        "orphans": _roles("engine"),
        "promote": _roles("engine"),
        "due_in": _roles("engine"),
        "claim": _roles("engine"),
        "claim_job": _roles("engine"),
        "held": _roles("engine"),
        "unclaim": _roles("engine"),
        "move_unserved": _roles("engine"),
        "unclaimed": _roles("engine"),
        "tenant_turns": _roles("engine"),
        "tenant_turn_begin": _roles("engine"),
        "tenant_turn_failed": _roles("engine"),
        "tenant_turn_succeeded": _roles("engine"),
        "company_of": _roles("engine"),
        "session_schemas": _roles("engine"),
        "analyze_grown": _roles("engine"),
        "count_outcomes": _roles("engine"),
        "prune_outcome_counts": _roles("engine"),
        "outcome_sums": _roles("operator"),
        "uncounted_outcomes": _roles("operator"),
        "outcome_bounds": _roles("operator"),
        "wait_at": _roles("operator"),
        "tenant_load_sums": _roles("operator"),
        "loads_of": _roles("operator"),
        "uncounted_loads": _roles("operator"),
        "recent_end_sums": _roles("operator"),
        "uncounted_ends": _roles("operator"),
        "fold_dead_letter_counts": _roles("engine"),
        "prune_rate_limits": _roles("engine"),
        "prune_keys": _roles("engine"),
        "submission_take": _roles("owners web"),
        "command_take": _roles("web"),
        "stream_ticket_put": _roles("web"),
        "stream_ticket_take": _roles("web"),
        "lease_keep": _roles("engine"),
        "lease_drop": _roles("engine"),
        "unpublished": _roles("engine"),
        "mark_published": _roles("engine"),
        "unpublish": _roles("engine"),
        "claim_message": _roles("engine"),
        "backend_for": _roles("web operator"),
        "reroute": _roles("operator"),
        "worker_orders": _roles("engine"),
        "error_group": _roles("owners"),
        "schedule_tenants": _roles("engine"),
        "is_end": _roles("operator"),
        "schedules_due": _roles("engine"),
        "callbacks_take": _roles("engine"),
        "callback_tried": _roles("engine"),
        "callbacks_settle": _roles("operator"),
        "mail_take": _roles("web"),
    },
    relations={
        "companies": _may(web="SELECT", operator="SELECT"),
        "tenants": _may(web="SELECT", operator="SELECT"),
        "settings": _may(web="SELECT", operator=_READ_WRITE),
        "job_types": _may(owners="SELECT", operator=_READ_WRITE),
        "handlers": _may(owners="SELECT", operator="SELECT"),
        "subscriptions": _may(owners="SELECT", operator="SELECT DELETE"),
        "workers": _may(operator="SELECT"),
        "exec_hosts": _may(operator="SELECT"),
        "serving": {},
        "leases": _may(operator="SELECT"),
        "tenant_tasks": {},
        "tenant_failures": _may(operator="SELECT"),
        "tickets": _may(owners=_READ_WRITE),
        "key_looks": {},
        "key_locks": {},
        "part_looks": _may(owners="INSERT"),
        "ticket_counts": _may(operator="SELECT"),
        "backend_counts": _may(operator="SELECT"),
        "backlogs": _may(operator="SELECT"),
        "fairness": _may(operator="SELECT"),
        "jobs_in_review": _may(operator="SELECT"),
        "outcomes": _may(owners="INSERT", operator="SELECT"),
        "schedules": _may(owners=_READ_WRITE),
        "callbacks": _may(owners=_READ_WRITE),
        "callback_addresses": _may(operator="SELECT INSERT DELETE"),
        "failing_callbacks": _may(operator="SELECT"),
        "schedules_listed": _may(operator="SELECT"),
        "dead_letters": _may(owners=_READ_WRITE),
        "failed_jobs": _may(operator="SELECT"),
        "open_jobs": _may(operator="SELECT"),
        "operator_audit": _may(owners="INSERT", operator="SELECT"),
        "outcome_counts": _may(operator="SELECT"),
        "tenant_loads": _may(operator="SELECT"),
        "recent_ends": _may(operator="SELECT"),
        "dead_letter_counts": {},
        "failed_job_counts": _may(operator="SELECT"),
        "waiting_tenants": _may(operator="SELECT"),
        "open_dead_letters": _may(operator="SELECT"),
        "outcomes_counted": _may(operator="SELECT"),
        "counted_jobs": {},
        "alert_states": _may(operator=_READ_WRITE),
        "alert_messages": _may(operator=_READ_WRITE),
        "alert_receivers": _may(operator=_READ_WRITE),
        "ended_jobs": _may(operator="SELECT"),
        "stream_tickets": {},
        "rate_limits": _may(operator="SELECT"),
        "schema_migrations": _may(web="SELECT"),
        "schema_functions": {},
    },
    columns={
        ("tenants", column): _may(operator="UPDATE")
        for column in (
            "paused_at",
            "weight",
            "cap",
            "jobs_per_day",
            "backend",
            "tokens_valid_from",
            "alert_failure_percent",
            "alert_wait_minutes",
        )
    }
    | {("workers", "request"): _may(operator="UPDATE")},
    invokers=frozenset({"uuid_v7", "error_group"})
    | _CLAIM_STEPS
    | _KEY_STEPS
    | _RATE_STEPS
    | _ENQUEUE_STEPS
    | _OUTCOME_STEPS,
    policies={
        ("tickets", "own_tickets"): Policy("*", _OWN_ROWS, None),
        ("schedules", "own_schedules"): Policy("*", _OWN_ROWS, None),
        ("callbacks", "own_callbacks"): Policy("*", _OWN_ROWS, None),
        ("part_looks", "own_part_looks"): Policy("a", None, _OWN_ROWS),
        ("outcomes", "own_outcomes"): Policy("a", None, _OWN_ROWS),
        ("outcomes", "all_outcomes"): Policy("r", "true", None),
        ("dead_letters", "own_dead_letters"): Policy("*", _OWN_ROWS, None),
        ("operator_audit", "own_audit"): Policy("a", None, _OWN_ROWS),
        ("operator_audit", "all_audit"): Policy("r", "true", None),
    },
)

# Every table and view that is not named here belongs to the application.
TENANT = Matrix(
    usage=_roles("handler api report engine control"),
    functions={
        "job_start": _roles("handler"),
        "job_progress": _roles("handler"),
        "job_items": _roles("handler"),
        "job_checkpoint": _roles("handler"),
        "jobs_fetch": _roles("handler"),
        "jobs_finish": _roles("handler"),
        "assert_transaction": _roles("handler"),
        "jobs_held": _roles("handler"),
        "claims_lost": _roles("handler"),
        "job_fail": _roles("handler"),
        "job_release": _roles("handler"),
        "job_end_cancelled": _roles("handler"),
        "job_cancel_requested": _roles("handler"),
        "job_hold": _roles("handler"),
        "job_await_review": _roles("handler"),
        "effect_intend": _roles("handler"),
        "effect_reissue": _roles("handler"),
        "effect_settle": _roles("handler"),
        "effect_call_returned": _roles("handler"),
        "effect_decide": _roles("api"),
        # Who has these two by `turno.enqueue` is the host: control owns that.
        "job_enqueue": _roles("api control"),
        "jobs_enqueue": _roles("control"),
        "job_enqueue_child": _roles("handler"),
        "job_fan_out": _roles("handler"),
        "job_await_parts": _roles("handler"),
        "event_publish": _roles("control"),
        "event_publish_child": _roles("handler"),
        "event_replay": _roles("api"),
        "event_purge": _roles("engine"),
        "job_cancel": _roles("api"),
        "jobs_command": _roles("api"),
        "job_lacks": _roles("api"),
        "outcome_of": _roles("api"),
        "job_retry": _roles("api"),
        "notification_read": _roles("api"),
        "jobs_running": _roles("engine"),
        "job_logs_put": _roles("engine"),
        "job_rescue": _roles("engine"),
        "sessions_end": _roles("engine"),
        "job_repair": _roles("engine"),
        "job_expire": _roles("engine"),
        "job_purge": _roles("engine"),
        "file_begin": _roles("api"),
        "file_put": _roles("api"),
        "file_create": _roles("handler"),
        "file_append": _roles("handler"),
        "file_finish": _roles("handler"),
        "files_unknown": _roles("engine"),
        "file_take": _roles("handler"),
        "file_purge": _roles("engine"),
        "schedule_put": _roles("api"),
        "schedule_switch": _roles("api"),
        "schedule_remove": _roles("api"),
        "schedule_fire": _roles("engine"),
        "callbacks_put": _roles("api"),
    },
    relations={
        "background_jobs": _READ_JOBS,
        "background_job_attempts": _READ_JOBS,
        "background_job_attempt_rows": {},
        "background_job_logs": _may(api="SELECT"),
        "background_job_progress": _READ_JOBS,
        "background_job_checkpoints": _may(handler="SELECT"),
        "background_job_items": _READ_JOBS,
        "background_job_parts": _READ_JOBS,
        "background_job_keys": {},
        "background_job_events": _READ_JOBS,
        "background_job_event_rows": {},
        "background_jobs_dead_letter": _READ_JOBS,
        "background_events": _may(api="SELECT"),
        "background_event_jobs": _may(api="SELECT"),
        "job_schedules": _may(api="SELECT"),
        "job_schedule_runs": _may(api="SELECT"),
        "external_effects": {},
        "external_doubt": {},
        "notifications": _may(api="SELECT"),
        "notifications_of_ends": _may(api="SELECT"),
        "notifications_of_reviews": _may(api="SELECT"),
        "job_files": _READ_JOBS,
        "job_file_pieces": _READ_JOBS,
        "schema_migrations": {},
        "schema_functions": {},
        "application_migrations": {},
    },
    # All but the token: a claim's token is its pass.
    columns={("external_effects", column): _READ_JOBS for column in _EFFECT_COLUMNS.split()},
    invokers=frozenset(
        {"shortened", "intent_of", "jobs_insert", "asked_hash", "payload_key", "key_holder", "key_expire"}
        | {"schedule_copy", "schedule_take_back", "event_deliver", "claimed_job", "session_gone", "assert_few_open"}
        | {"unfinished", "part_continued", "parts_cancel", "part_progress"}
        | {"outcome_of", "has_items", "counted_by", "item_error"}
    ),
    others={
        Kind.TABLE: _may(handler=_READ_WRITE, report="SELECT"),
        # Keys, tickets and passwords of the application's own: reports do not read them either.
        Kind.PRIVATE: _may(handler=_READ_WRITE),
        # What the application's pages read of its business is what it shows in views.
        Kind.VIEW: _may(handler="SELECT", report="SELECT", api="SELECT"),
        Kind.SEQUENCE: _may(handler="USAGE"),
    },
)
