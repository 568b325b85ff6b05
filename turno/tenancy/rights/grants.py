"""All rights of all roles. Every further right is revoked from every role but the owner."""

from functools import reduce
from operator import or_

from turno.capability import installed
from turno.tenancy.rights.matrix import OWN_ROWS, READ_WRITE, Kind, Matrix, Policy, may, roles

_READ_JOBS = may(handler="SELECT", api="SELECT")

# Called by `claim`, `claim_job` and `promote` alone, which have pinned the path.
_CLAIM_STEPS = frozenset(
    {
        "due_of_each",
        "let_run",
        "make_ready",
        "parts_look",
        "tenant_capacity",
        "type_capacity",
        "worker_hold",
    }
)

# Called by the functions above, and by the trigger `key_moved`, which has pinned the path.
_KEY_STEPS = frozenset({"key_admit", "key_look", "key_next", "keys_look"})


# Called by `enqueue`, `enqueue_many` and `publish` alone.
_ENQUEUE_STEPS = frozenset(
    {
        "enqueue_target",
        "tenant_for_caller",
        "hint_at_commit",
        "not_enqueued",
        "backend_now",
        "caller_may_use",
    }
)

# Called by statements of the operator and by functions that have pinned the path.
_OUTCOME_STEPS = frozenset({"outcome_bounds", "outcomes_read", "wait_at", "is_end"})

# Not granted one by one: an owner role per tenant would outgrow the row of pg_class at some 500 tenants, so all owners
# get these rights through their common group.
_CONTROL = Matrix(
    usage=roles("owners engine web operator host"),
    functions={
        "enqueue": roles("host"),
        "enqueue_many": roles("host"),
        "announce": roles("engine"),
        "uuid_v7": roles("owners"),
        "tenant_of": roles("owners"),
        "due_state": roles("owners"),
        "worker_start": roles("engine"),
        "lacking": roles("owners"),
        "paused": roles("owners"),
        "unserved": roles("engine operator"),
        "worker_alive": roles("engine"),
        "lease_take": roles("engine"),
        "worker_stop": roles("engine"),
        "worth_staying": roles("engine"),
        "prune_workers": roles("engine"),
        "silence_left": roles("engine"),
        "orphans": roles("engine"),
        "promote": roles("engine"),
        "due_in": roles("engine"),
        "claim": roles("engine"),
        "claim_job": roles("engine"),
        "held": roles("engine"),
        "unclaim": roles("engine"),
        "move_unserved": roles("engine"),
        "unclaimed": roles("engine"),
        "tenant_turns": roles("engine"),
        "tenant_turn_begin": roles("engine"),
        "tenant_turn_end": roles("engine"),
        "company_of": roles("engine"),
        "session_schemas": roles("engine"),
        "analyze_grown": roles("engine"),
        "count_outcomes": roles("engine"),
        "outcome_bounds": roles("operator"),
        "wait_at": roles("operator"),
        "fold_dead_letter_counts": roles("engine"),
        "prune": roles("engine"),
        "rate_take": roles("owners web"),
        "backend_for": roles("web operator"),
        "reroute": roles("operator"),
        "error_group": roles("owners"),
        "is_end": roles("operator"),
    },
    relations={
        "backends": may(operator="SELECT"),
        "companies": may(web="SELECT", operator="SELECT"),
        "tenants": may(web="SELECT", operator="SELECT"),
        "settings": may(web="SELECT", operator=READ_WRITE),
        "job_types": may(owners="SELECT", operator=READ_WRITE),
        "handlers": may(owners="SELECT", operator="SELECT"),
        "workers": may(operator="SELECT"),
        "exec_hosts": may(operator="SELECT"),
        "serving": {},
        "leases": may(operator="SELECT"),
        "tenant_tasks": {},
        "tenant_failures": may(operator="SELECT"),
        "tickets": may(owners=READ_WRITE),
        "key_looks": {},
        "key_locks": {},
        "part_looks": may(owners="INSERT"),
        "ticket_counts": may(operator="SELECT"),
        "backend_counts": may(operator="SELECT"),
        "backlogs": may(operator="SELECT"),
        "fairness": may(operator="SELECT"),
        "jobs_in_review": may(operator="SELECT"),
        "outcome_batches": may(owners="INSERT"),
        "outcome_readers": may(operator="SELECT"),
        "outcomes": {},
        "statistics": may(operator="SELECT"),
        "dead_letters": may(owners=READ_WRITE),
        "failed_jobs": may(operator="SELECT"),
        "open_jobs": may(operator="SELECT"),
        "operator_acts": may(owners="INSERT"),
        "dead_letter_counts": {},
        "failed_job_counts": may(operator="SELECT"),
        "recent_failures": may(operator="SELECT"),
        "waiting_tenants": may(operator="SELECT"),
        "ended_jobs": may(operator="SELECT"),
        "rate_limits": may(operator="SELECT"),
        "schema_migrations": may(web="SELECT"),
    },
    columns={
        ("tenants", column): may(operator="UPDATE")
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
    | {("workers", "request"): may(operator="UPDATE")},
    invokers=frozenset({"enqueue", "uuid_v7", "error_group", "due_state", "operator_act"})
    | _CLAIM_STEPS
    | _KEY_STEPS
    | _ENQUEUE_STEPS
    | _OUTCOME_STEPS,
    policies={
        ("tickets", "own_tickets"): Policy("*", OWN_ROWS, None),
        ("part_looks", "own_part_looks"): Policy("a", None, OWN_ROWS),
        ("outcome_batches", "own_outcome_batches"): Policy("a", None, OWN_ROWS),
        ("dead_letters", "own_dead_letters"): Policy("*", OWN_ROWS, None),
    },
)

# Every table and view without a source belongs to the application.
_TENANT = Matrix(
    usage=roles("handler api report engine web control"),
    functions={
        "job_start": roles("handler"),
        "job_progress": roles("handler"),
        "job_items": roles("handler"),
        "job_checkpoint": roles("handler"),
        "jobs_fetch": roles("handler"),
        "jobs_finish": roles("handler"),
        "assert_transaction": roles("handler"),
        "jobs_held": roles("handler"),
        "claims_lost": roles("handler"),
        "job_fail": roles("handler"),
        "job_release": roles("handler"),
        "job_end_cancelled": roles("handler"),
        "job_cancel_requested": roles("handler"),
        "job_hold": roles("handler"),
        "job_await_review": roles("handler"),
        # The web's role calls it without SET ROLE; control owns `turno.enqueue_many`, by which hosts enqueue.
        "jobs_enqueue": roles("api web control"),
        "job_enqueue_child": roles("handler"),
        "job_cancel": roles("api"),
        "jobs_command": roles("api"),
        "job_lacks": roles("api"),
        "outcome_of": roles("api"),
        "job_retry": roles("api"),
        "notification_read": roles("api"),
        "jobs_running": roles("engine"),
        "job_logs_put": roles("engine"),
        "job_rescue": roles("engine"),
        "sessions_end": roles("engine"),
        "job_repair": roles("engine"),
        "job_expire": roles("engine"),
        "job_purge": roles("engine"),
    },
    relations={
        "background_jobs": _READ_JOBS,
        "background_job_attempts": _READ_JOBS,
        "background_job_attempt_rows": {},
        "background_job_logs": may(api="SELECT"),
        "background_job_progress": _READ_JOBS,
        "background_job_progress_rows": {},
        "background_job_checkpoints": may(handler="SELECT"),
        "background_job_items": _READ_JOBS,
        "background_job_keys": {},
        "background_job_events": _READ_JOBS,
        "background_job_event_rows": {},
        "background_jobs_dead_letter": _READ_JOBS,
        "notifications": may(api="SELECT"),
        "notifications_of_ends": may(api="SELECT"),
        "notifications_of_reviews": may(api="SELECT"),
        "schema_migrations": {},
    },
    invokers=frozenset(
        {"shortened", "key_holder", "child_jobs"}
        | {"claimed_job", "session_gone", "assert_few_open"}
        | {"unfinished", "job_wake", "jobs_await", "progress_begin"}
        | {"outcome_of", "has_items", "counted_by", "item_error"}
    ),
    others={
        Kind.TABLE: may(handler=READ_WRITE, report="SELECT"),
        # Keys, tickets and passwords of the application's own: reports do not read them either.
        Kind.PRIVATE: may(handler=READ_WRITE),
        # The application's pages read its business data through views.
        Kind.VIEW: may(handler="SELECT", report="SELECT", api="SELECT"),
        Kind.SEQUENCE: may(handler="USAGE"),
    },
)

CONTROL = reduce(or_, (one.control for one in installed()), _CONTROL)
TENANT = reduce(or_, (one.tenant for one in installed()), _TENANT)
