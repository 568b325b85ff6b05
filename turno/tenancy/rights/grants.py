"""All rights of all roles. Every further right is revoked from every role but the owner."""

from functools import reduce
from operator import or_

from turno.capability import installed
from turno.tenancy.rights.matrix import OWN_ROWS, READ_WRITE, Kind, Matrix, Policy, callers, may, names, roles

_READ_JOBS = may(handler="SELECT", api="SELECT")
_SHOWN_TO_OPERATORS = names(
    "backends workers exec_hosts leases tenant_failures ticket_counts backend_counts backlogs tenant_shares"
    " outcome_readers statistics failed_jobs open_jobs failed_job_counts ended_jobs rate_limits"
)
_CHANGED_BY_OPERATORS = names(
    "paused_at weight cap jobs_per_day backend queue tokens_valid_from alert_failure_percent alert_wait_minutes"
)

# Not granted one by one: an owner role per tenant would outgrow the row of pg_class at some 500 tenants, so all owners
# get these rights through their common group.
_CONTROL = Matrix(
    usage=roles("owners engine web operator host"),
    functions=callers(
        host="enqueue enqueue_many",
        owners="uuid_v7 tenant_of tenant_queue due_state lacking paused error_group rate_take",
        web="rate_take backend_for",
        operator="unserved failing_jobs backend_for reroute outcome_bounds wait_at is_end",
        engine="announce worker_start worker_alive worker_stop worth_staying prune_workers silence_left lease_take"
        " orphans promote due_in claim claim_job held unclaim unclaimed unserved move_unserved tenant_turns"
        " tenant_turn_begin tenant_turn_end company_of session_schemas analyze_grown count_outcomes"
        " fold_dead_letter_counts prune",
    ),
    relations=dict.fromkeys(
        ["serving", "tenant_tasks", "key_looks", "key_locks", "outcomes", "dead_letter_counts"], may()
    )
    | dict.fromkeys(_SHOWN_TO_OPERATORS, may(operator="SELECT"))
    | {
        "companies": may(web="SELECT", operator="SELECT"),
        "tenants": may(web="SELECT", operator="SELECT"),
        "settings": may(web="SELECT", operator=READ_WRITE),
        "job_types": may(owners="SELECT", operator=READ_WRITE),
        "handlers": may(owners="SELECT", operator="SELECT"),
        "handler_payloads": may(owners="SELECT", operator="SELECT"),
        "tickets": may(owners=READ_WRITE),
        "part_looks": may(owners="INSERT"),
        "outcome_batches": may(owners="INSERT"),
        "dead_letters": may(owners=READ_WRITE),
        "operator_acts": may(owners="INSERT"),
        "schema_migrations": may(web="SELECT"),
    },
    columns={("tenants", column): may(operator="UPDATE") for column in _CHANGED_BY_OPERATORS}
    | {("workers", "request"): may(operator="UPDATE")},
    invokers=frozenset(
        (
            *names("enqueue uuid_v7 error_group due_state operator_act"),
            # Called by `claim`, `claim_job` and `promote` alone, which have pinned the path.
            *names("due_of_each tenant_capacity type_capacity"),
            # Called by the functions above, and by the trigger `key_moved`, which has pinned the path.
            *names("key_admit key_look"),
            # Called by `enqueue`, `enqueue_many` and the functions of capabilities beside them alone.
            *names("tenant_for_caller tenant_function hint_at_commit not_enqueued"),
            # Called by statements of the operator and by functions that have pinned the path.
            *names("outcome_bounds outcomes_read wait_at is_end"),
        )
    ),
    policies={
        ("tickets", "own_tickets"): Policy("*", OWN_ROWS, None),
        ("part_looks", "own_part_looks"): Policy("a", None, OWN_ROWS),
        ("outcome_batches", "own_outcome_batches"): Policy("a", None, OWN_ROWS),
        ("dead_letters", "own_dead_letters"): Policy("*", OWN_ROWS, None),
    },
)

# Every table and view without a source belongs to the application.
_TENANT = Matrix(
    usage=roles("handler api report readers engine web control"),
    functions=callers(
        handler="job_start job_progress job_items job_checkpoint jobs_fetch jobs_finish jobs_held claims_lost"
        " payload_declared_otherwise attempt_end claim_hold job_enqueue_child",
        api="jobs_enqueue job_cancel jobs_command job_lacks outcome_of job_retry notification_read",
        # The web's role calls it without SET ROLE; control owns `turno.enqueue_many`, by which hosts enqueue.
        web="jobs_enqueue",
        control="jobs_enqueue",
        engine="jobs_running job_logs_put job_rescue sessions_end job_repair job_expire job_purge",
    ),
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
        names(
            "shortened key_holder child_jobs claimed_job session_gone assert_few_open unfinished job_wake jobs_await"
            " progress_begin outcome_of has_items item_error"
        )
    ),
    others={
        Kind.TABLE: may(handler=READ_WRITE, report="SELECT", readers="SELECT"),
        # Keys, tickets and passwords of the application's own: neither reports nor children read them.
        Kind.PRIVATE: may(handler=READ_WRITE),
        # The application's pages read its business data through views.
        Kind.VIEW: may(handler="SELECT", report="SELECT", readers="SELECT", api="SELECT"),
        Kind.SEQUENCE: may(handler="USAGE"),
    },
)

CONTROL = reduce(or_, (capability.control for capability in installed()), _CONTROL)
TENANT = reduce(or_, (capability.tenant for capability in installed()), _TENANT)
