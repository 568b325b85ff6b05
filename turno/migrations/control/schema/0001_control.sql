-- The control schema: tenants, tickets and workers. Run with search_path = turno, as the installation's NOLOGIN owner.
-- It holds no tenant data: a ticket has the state and the order of a job, never its content. Roles are granted nothing
-- here: `turno/tenancy/rights/grants.py` lists all rights. The functions are in ../functions, a file for each verb; functions
-- that a policy names are declared here first.

-- Bounds on every value that a tenant's functions store, so that shared indexes and functions can hold it and every
-- reader can load it. A domain is checked when a value is assigned; a table's CHECK would run at every update.
-- The constraint's name is the error message that the caller sees.
CREATE DOMAIN queue_name AS text CONSTRAINT "queue has 1 to 63 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 63);
CREATE DOMAIN type_name AS text CONSTRAINT "type has 1 to 127 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 127);
CREATE DOMAIN user_name AS text CONSTRAINT "user has 1 to 255 characters" CHECK (length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN idempotency_key AS text
    CONSTRAINT "idempotency_key has 1 to 255 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN correlation_id AS text
    CONSTRAINT "correlation_id has at most 255 bytes" CHECK (octet_length(VALUE) <= 255);
CREATE DOMAIN trace_context AS text CONSTRAINT "trace_context has at most 512 bytes" CHECK (octet_length(VALUE) <= 512);
CREATE DOMAIN payload_hash AS bytea CONSTRAINT "payload_hash has at most 64 bytes" CHECK (octet_length(VALUE) <= 64);
-- Python refuses integers of 4,300 digits and JSON nested about a thousand deep. A short text contains neither, so
-- the length is checked first and few values are searched.
CREATE DOMAIN loadable_json AS jsonb
    CONSTRAINT "JSON nests at most 200 deep" CHECK (octet_length(VALUE::text) < 400 OR NOT VALUE @? 'strict $.**{201}')
    CONSTRAINT "JSON has no number beyond 1e308"
    CHECK (octet_length(VALUE::text) < 4000 OR NOT VALUE @? 'strict $.** ? (@ > 1e308 || @ < -1e308)');
CREATE DOMAIN job_payload AS loadable_json
    CONSTRAINT "payload has at most 4 MB as text" CHECK (octet_length(VALUE::text) <= 4194304);
CREATE DOMAIN job_result AS loadable_json
    CONSTRAINT "result has at most 1 MB as text" CHECK (octet_length(VALUE::text) <= 1048576);
CREATE DOMAIN job_state AS loadable_json
    CONSTRAINT "state has at most 1 MB as text" CHECK (octet_length(VALUE::text) <= 1048576);
CREATE DOMAIN job_error AS loadable_json CONSTRAINT "error is an object with at most 128 kB as text"
    CHECK (jsonb_typeof(VALUE) = 'object' AND octet_length(VALUE::text) <= 131072);
CREATE DOMAIN job_words AS text CONSTRAINT "words have at most 1000 characters" CHECK (length(VALUE) <= 1000);
CREATE DOMAIN concurrency_key AS text
    CONSTRAINT "concurrency_key has 1 to 255 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN item_key AS text CONSTRAINT "key has 1 to 255 characters" CHECK (length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN item_ref AS text CONSTRAINT "ref has at most 1000 characters" CHECK (length(VALUE) <= 1000);
-- run_at is infinity while a job waits for a person's decision; every other time fits Python's datetime.
CREATE DOMAIN due_time AS timestamptz CONSTRAINT "run_at is from 2000 to 9999, or infinity"
    CHECK (VALUE = 'infinity' OR VALUE >= '2000-01-01 00:00Z' AND VALUE < '9999-12-31 00:00Z');
CREATE DOMAIN moment AS timestamptz CONSTRAINT "time is from 2000 to 9999"
    CHECK (VALUE BETWEEN '2000-01-01 00:00Z' AND '9999-12-30 00:00Z');
CREATE DOMAIN expiry_time AS timestamptz CONSTRAINT "expires_at is from 2000 to 9999"
    CHECK (VALUE >= '2000-01-01 00:00Z' AND VALUE < '9999-12-31 00:00Z');

-- A session prepares the check of a domain once; a table's CHECK is parsed by each statement that writes, and lists of
-- words in it took a tenth of the time of an enqueue.
CREATE DOMAIN backend_name AS text CONSTRAINT "backend is a word" CHECK (VALUE ~ '^[a-z]{1,20}$');
CREATE DOMAIN ticket_state AS text CONSTRAINT "state is scheduled, waiting, ready, running, parts or review"
    CHECK (VALUE IN ('scheduled', 'waiting', 'ready', 'running', 'parts', 'review'));
CREATE DOMAIN job_status AS text CONSTRAINT "status is pending, running, completed, failed or cancelled"
    CHECK (VALUE IN ('pending', 'running', 'completed', 'failed', 'cancelled'));

-- Capabilities insert theirs. relayed: a process publishes ready tickets to a broker and records it in published_at.
CREATE TABLE backends (
    name    backend_name PRIMARY KEY,
    relayed boolean NOT NULL
);
INSERT INTO backends VALUES ('exec', false), ('pool', false);

CREATE TABLE companies (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug        text NOT NULL UNIQUE CHECK (slug ~ '^[a-z][a-z0-9_-]{0,39}$'),
    name        text NOT NULL,
    report_role text NOT NULL UNIQUE,
    login_epoch integer NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE tenants (
    id                integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug              text NOT NULL UNIQUE CHECK (slug ~ '^[a-z][a-z0-9_-]{0,39}$'),
    company_id        integer NOT NULL REFERENCES companies,
    schema            text NOT NULL UNIQUE CHECK (schema ~ '^t_[0-9a-f]{12}$'),
    owner_role        text NOT NULL UNIQUE,
    handler_role      text NOT NULL UNIQUE,
    api_role          text NOT NULL UNIQUE,
    -- The schema of the application in which the tenant's handlers work, too: first in their search_path.
    adopted_schema    text CHECK (adopted_schema ~ '^[a-z_][a-z0-9_]{0,62}$'),
    -- The tenant whose business data the handlers read, and the schema with these data; a parent has no parent.
    parent_id         integer REFERENCES tenants CHECK (parent_id <> id),
    parent_schema     text CHECK ((parent_schema IS NULL) = (parent_id IS NULL)),
    -- Of a parent: the group of the handlers of its children, which may read its business data.
    readers_role      text UNIQUE CHECK (readers_role IS NULL OR parent_id IS NULL),
    -- provisioning -> active -> removed; only an active tenant is found by the web or a worker.
    state             text NOT NULL DEFAULT 'provisioning' CHECK (state IN ('provisioning', 'active', 'removed')),
    weight            smallint NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 100),
    cap               smallint CHECK (cap > 0),
    paused_at         timestamptz,
    -- Jobs that all its users together may submit a day, in place of jobs_per_day_per_tenant of TURNO_LIMITS.
    jobs_per_day      integer CHECK (jobs_per_day > 0),
    backend           text REFERENCES backends,
    -- The queue of its jobs that wait in the own queue of their type, if the type allows this queue.
    queue             queue_name,
    -- Passwords are derived from login_epoch; a token issued before tokens_valid_from is refused.
    login_epoch       integer NOT NULL DEFAULT 0,
    tokens_valid_from timestamptz NOT NULL DEFAULT '-infinity',
    created_at        timestamptz NOT NULL DEFAULT now(),
    -- The thresholds of the alerts, which override the thresholds of the type and of the installation.
    alert_failure_percent real CHECK (alert_failure_percent BETWEEN 0 AND 100),
    alert_wait_minutes    integer CHECK (alert_wait_minutes BETWEEN 1 AND 10080)
);
CREATE INDEX tenants_of_company ON tenants (company_id);
CREATE INDEX tenants_of_parent ON tenants (parent_id) WHERE parent_id IS NOT NULL;
-- An adopted schema outlives its tenant and may get a new tenant.
CREATE UNIQUE INDEX tenants_adopted ON tenants (adopted_schema) WHERE state <> 'removed';

CREATE TABLE settings (
    name       text PRIMARY KEY,
    value      text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    backend    text REFERENCES backends
        GENERATED ALWAYS AS (CASE WHEN name IN ('queue_backend', 'queue_canary_backend') THEN value END) STORED,
    CONSTRAINT percentage CHECK (
        name <> 'queue_canary_percent' OR value ~ '^[0-9]{1,3}$' AND value::integer <= 100)
);

-- The operators' settings of a job type; a type without a row runs freely, and for a column without a value the code
-- decides: how long an attempt may take, how many may end in an error, and how long ended jobs are kept.
CREATE TABLE job_types (
    type           type_name PRIMARY KEY,
    cap            smallint CHECK (cap > 0),
    paused_at      timestamptz,
    timeout        real CHECK (timeout > 0 AND timeout <= 604800),  -- seconds
    max_attempts   integer CHECK (max_attempts BETWEEN 1 AND 1000),
    retention_days integer CHECK (retention_days BETWEEN 1 AND 3650),
    -- Jobs of the type that each tenant may submit a day.
    jobs_per_day   integer CHECK (jobs_per_day > 0),
    -- The thresholds of the alerts, in place of the installation's.
    alert_failure_percent real CHECK (alert_failure_percent BETWEEN 0 AND 100),
    alert_wait_minutes    integer CHECK (alert_wait_minutes BETWEEN 1 AND 10080)
);

-- The declaration of each job type in the code, for callers that enqueue by SQL: see ../functions/announce.sql.
CREATE TABLE handlers (
    type          type_name PRIMARY KEY,
    version       smallint NOT NULL,
    queue         queue_name NOT NULL,
    max_attempts  integer NOT NULL CHECK (max_attempts > 0),
    -- The largest number of open jobs of one user; NULL: no limit (pending_jobs_per_user=0).
    pending_limit integer CHECK (pending_limit > 0),
    -- Queues that a submission may choose besides the type's own.
    other_queues  text[] NOT NULL DEFAULT '{}',
    -- Whether the type derives a concurrency key from the payload; and how many jobs of one key run at the same time, or
    -- start within key_period seconds. Without both, jobs of one key run singly.
    keyed         boolean NOT NULL DEFAULT false,
    key_limit     integer CHECK (key_limit > 0),
    key_rate      integer CHECK (key_rate > 0),
    key_period    double precision CHECK (key_period > 0),
    -- The last announcement that named the type, to the minute.
    seen_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The payloads that releases announced for each type and version, as digests of their fields. Two of them for a version are two
-- releases: a payload was changed without a new version.
CREATE TABLE handler_payloads (
    type    type_name NOT NULL,
    version smallint NOT NULL,
    payload text NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),  -- to the minute
    PRIMARY KEY (type, version, payload)
);

-- A worker counts as alive while its heartbeat updates alive_at, by the database's clock.
-- versions[i] belongs to types[i]; queues NULL means all queues.
CREATE TABLE workers (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    backend    backend_name NOT NULL,
    host       text NOT NULL,
    pid        integer NOT NULL,
    queues     text[],
    types      text[] NOT NULL DEFAULT '{}',
    versions   smallint[] NOT NULL DEFAULT '{}',
    -- An operator's request, which the worker reads with its heartbeat. quiet: it claims nothing more. stop: as by
    -- SIGTERM.
    request    text CHECK (request IN ('quiet', 'stop')),
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    alive_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (cardinality(types) = cardinality(versions))
) WITH (fillfactor = 50);

-- Exec workers exist only while they run a job: the types that the last one of each host could run.
CREATE TABLE exec_hosts (
    host     text PRIMARY KEY,
    types    text[] NOT NULL,
    versions smallint[] NOT NULL,
    seen_at  timestamptz NOT NULL
);

-- scheduled: may run at run_at.  waiting: due, behind other jobs of its key.  ready: may run now.  running: claimed by a
-- worker under a token.  parts: until the parts of the job end.  review: until a person decides.
-- Only a ticket with a concurrency key waits, and only key_admit makes it ready.
-- The row is deleted when the job ends. No foreign key to tenants: its check would lock the
-- tenant's row for every enqueue of every client.
CREATE TABLE tickets (
    job_id       uuid PRIMARY KEY,
    tenant_id    integer NOT NULL,
    queue        queue_name NOT NULL,
    type         type_name NOT NULL,
    version      smallint NOT NULL,
    priority     smallint NOT NULL,
    run_at       due_time NOT NULL,
    state        ticket_state NOT NULL,
    backend      backend_name NOT NULL,
    published_at timestamptz,
    worker_id    uuid,
    token        uuid,
    claimed_at   timestamptz,  -- of the last claim
    attempt      integer NOT NULL DEFAULT 0,
    -- How often a worker died while running this job. Such a job runs alone in a batch: it may have been the cause.
    crashes      smallint NOT NULL DEFAULT 0,
    -- Set when cancellation of a running job is requested: the worker may read this table, not the job.
    cancel_at    timestamptz,
    -- The last attempt ended in an error: the job is tried again.
    retrying     boolean NOT NULL DEFAULT false,
    -- Of the domain concurrency_key, checked by enqueue.
    concurrency_key text,
    -- The position in the order of the key; NULL: any job of the key may be next.
    key_position bigint,
    -- The job that waits for this job. Its own ticket has the state `parts`.
    awaited_by   uuid,
    CHECK ((state = 'running') = (worker_id IS NOT NULL) AND (worker_id IS NULL) = (token IS NULL)),
    CHECK (priority BETWEEN 0 AND 2 AND attempt >= 0 AND crashes >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
-- The order in which claim reads: tenant, priority, age. Tickets of types that it cannot run are skipped in the index.
CREATE INDEX tickets_by_tenant ON tickets (backend, queue, tenant_id, priority, run_at, job_id)
    INCLUDE (type, version, crashes) WHERE state = 'ready';
-- Hints of claim: a tenant's queue and priority begin at `head`, with a ticket of the type `name`; and a range of tenants
-- without tickets.
CREATE TYPE lane AS (tenant_id integer, queue text, priority smallint, head timestamptz, name text, alone boolean);
CREATE TYPE gap AS (since integer, until integer);
-- The order in which the sweeps look for unclaimed tickets: by type.
CREATE INDEX tickets_ready ON tickets (backend, queue, type, version, tenant_id, priority, run_at, job_id)
    WHERE state = 'ready';
CREATE INDEX tickets_due ON tickets (run_at, job_id) WHERE state = 'scheduled';
-- Read by promote when more tickets are due than one call promotes: it then takes some of each tenant.
CREATE INDEX tickets_due_by_tenant ON tickets (tenant_id, run_at, job_id) WHERE state = 'scheduled';
-- To enforce a cap, claim scans the whole index: few jobs run concurrently, and dead entries cost no read of the table.
CREATE INDEX tickets_running ON tickets (worker_id, tenant_id, type) WHERE state = 'running';
-- The waiting jobs of each concurrency key, in both of their orders.
CREATE INDEX tickets_by_key ON tickets (tenant_id, concurrency_key, state, priority, run_at, job_id)
    WHERE concurrency_key IS NOT NULL;
CREATE INDEX tickets_in_order ON tickets (tenant_id, concurrency_key, key_position, job_id) WHERE key_position IS NOT NULL;
CREATE INDEX tickets_awaited ON tickets (awaited_by) WHERE awaited_by IS NOT NULL;

-- When promote must check whether a key's next job may run: at once, because another session was changing the key's
-- tickets, or when a start no longer counts for the key's rate. No unique index, so that writers do not wait for each other.
CREATE TABLE key_looks (
    tenant_id integer NOT NULL,
    key       text NOT NULL,
    at        timestamptz NOT NULL,
    start     boolean NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_looks_due ON key_looks (at);
CREATE INDEX key_looks_of_key ON key_looks (tenant_id, key, at);

-- The transaction that locks the row of a key may admit jobs of the key. A row lock, unlike an advisory lock, occupies
-- none of the lock table that all sessions share. promote inserts the rows, prune removes rows of unused keys.
CREATE TABLE key_locks (
    tenant_id integer NOT NULL,
    key       text NOT NULL,
    PRIMARY KEY (tenant_id, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- Jobs with changed parts: promote checks whether they may continue. Inserted in the transaction of the change, which
-- takes no lock on the waiting job, so that its parts end without waiting for each other. `early`: a part failed, and
-- the job continues at once.
CREATE TABLE part_looks (
    tenant_id integer NOT NULL,
    job_id    uuid NOT NULL,
    early     boolean NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX part_looks_by_age ON part_looks (at);

-- Work that only one process may do concurrently. A lease ends at `until`; `since` is when holders began to follow one
-- another without a gap.
CREATE TABLE leases (
    name   text PRIMARY KEY,
    holder text NOT NULL,
    until  timestamptz NOT NULL,
    since  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Tasks that run tenant by tenant: the tenant with the last turn, 0 between two rounds over all tenants, and the start
-- of the round.
CREATE TABLE tenant_tasks (
    task     text PRIMARY KEY,
    position integer NOT NULL DEFAULT 0,
    begun_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Tenants for which a task failed at its last turn. The next success deletes the row.
CREATE TABLE tenant_failures (
    task      text NOT NULL,
    tenant_id integer NOT NULL,
    failures  integer NOT NULL,
    error     text NOT NULL,
    since     timestamptz NOT NULL,
    retry_at  timestamptz NOT NULL,
    PRIMARY KEY (task, tenant_id)
);

-- The used part of each limit: `empty_at` is the moment, in Unix seconds, at which all of it is earned back. `name` is the limit
-- as in the settings, `subject` the user or the type, and '' for a limit of the tenant. A row of the past equals no row.
CREATE TABLE rate_limits (
    tenant_id integer NOT NULL,
    name      text NOT NULL,
    subject   text NOT NULL,
    empty_at  double precision NOT NULL,
    PRIMARY KEY (tenant_id, name, subject)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- One row for each statement that ended attempts of one type with one outcome; the arrays have an element for each attempt, for
-- each job that ended without an attempt, and for each claim that was taken back ('rescued'). Rows are appended by tenants;
-- outcomes_read numbers them, and prune deletes them after the retention.
CREATE TABLE outcome_batches (
    tenant_id integer NOT NULL,
    type      text NOT NULL,
    -- claim_lost: an attempt found that its claim had been taken back, and wrote nothing.
    -- completed_with_failures, nothing_done: the job ran to its end, and some or all of its items failed.
    outcome   text NOT NULL CHECK (outcome IN ('completed', 'completed_with_failures', 'nothing_done', 'failed', 'cancelled',
                                               'expired', 'retried', 'crashed', 'rescheduled', 'released', 'rescued', 'claim_lost')),
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    jobs      uuid[],
    wait_ms   integer[] NOT NULL,
    run_ms    integer[],  -- null where no attempt ran
    -- Items of a job that ended; null of a job without items, and of a part with items counted by its job.
    items_done   integer[],
    items_failed integer[],
    -- The order of reading, the same for all rows that were read together. NULL: no reader has read the row.
    position  bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX outcome_batches_by_time ON outcome_batches (at);
CREATE INDEX outcome_batches_in_order ON outcome_batches (position) WHERE position IS NOT NULL;
CREATE INDEX outcome_batches_unread ON outcome_batches (at) WHERE position IS NULL;

-- The readers of outcome_batches and the last position that each has read; see ../functions/count_outcomes.sql.
CREATE TABLE outcome_readers (
    reader   text PRIMARY KEY,
    position bigint NOT NULL DEFAULT 0,
    read_at  timestamptz
);
INSERT INTO outcome_readers (reader) VALUES ('statistics');

-- Sums of outcomes by minute, tenant, type and outcome. `scope` is a tenant, a company with a negative sign, or 0 for the
-- installation; the minute -infinity has the sums of all time of a tenant and of the installation. Minutes are kept for two
-- days. Types without a handler are '(other)' except in the minutes of a tenant: a tenant can invent any number of types.
-- The arrays are a histogram of waits and run times: each element is a pair of buckets (see ../functions/outcome_bounds.sql;
-- -1: not distinguished, or no run), the number of outcomes and the sum of waits. Only the installation's sums of all time
-- distinguish run times, and the sums of all time of a tenant distinguish no bucket.
CREATE TABLE statistics (
    scope        integer NOT NULL,
    minute       timestamptz NOT NULL,
    type         text NOT NULL,
    outcome      text NOT NULL,
    outcomes     bigint NOT NULL,
    attempts     bigint NOT NULL,
    run_ms       bigint NOT NULL,
    items_done   bigint NOT NULL,
    items_failed bigint NOT NULL,
    wait_buckets smallint[] NOT NULL,
    run_buckets  smallint[] NOT NULL,
    counts       bigint[] NOT NULL,
    wait_ms      bigint[] NOT NULL,
    PRIMARY KEY (scope, minute, type, outcome)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX statistics_by_minute ON statistics (minute, scope);

-- The failures of all tenants: jobs that failed for good, and jobs that ended with failed items. A row is deleted with its
-- job. Closed: the job, or its failed items, was retried or discarded.
CREATE TABLE dead_letters (
    job_id    uuid PRIMARY KEY,
    tenant_id integer NOT NULL,
    type      text NOT NULL,
    outcome   text NOT NULL DEFAULT 'failed' CHECK (outcome IN ('failed', 'nothing_done', 'completed_with_failures')),
    -- The error_group of the job's error; of a job that ran to its end, the most frequent of its items' errors.
    error     text NOT NULL CHECK (length(error) <= 200),
    items_done   integer,
    items_failed integer,
    died_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at timestamptz,
    closed_as text CHECK (closed_as IN ('replayed', 'discarded')),
    -- Of a job in an order: later jobs of the key wait until this job is closed.
    concurrency_key text,
    key_position    bigint,
    CHECK ((closed_at IS NULL) = (closed_as IS NULL))
);
CREATE INDEX dead_letters_by_time ON dead_letters (died_at, job_id);
CREATE INDEX dead_letters_of_tenant ON dead_letters (tenant_id, died_at, job_id);
CREATE INDEX dead_letters_in_order ON dead_letters (tenant_id, concurrency_key, key_position)
    WHERE closed_at IS NULL AND key_position IS NOT NULL;

-- The dead letters of each tenant, type, outcome, error and day (UTC), the number of open dead letters, and the failed
-- items of the open jobs. A trigger adds a row for each change, and fold_dead_letter_counts merges rows. Readers add
-- all rows up, so the numbers are exact at any moment. `first_at` and `last_at` are of the whole day, closed ones
-- included.
CREATE TABLE dead_letter_counts (
    tenant_id integer NOT NULL,
    type      text NOT NULL,
    outcome   text NOT NULL,
    error     text NOT NULL,
    day       date NOT NULL,
    jobs      bigint NOT NULL,
    open      bigint NOT NULL,
    items     bigint NOT NULL,
    first_at  timestamptz NOT NULL,
    last_at   timestamptz NOT NULL,
    folded    boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE UNIQUE INDEX dead_letter_counts_folded ON dead_letter_counts (tenant_id, type, outcome, error, day) WHERE folded;
CREATE INDEX dead_letter_counts_fresh ON dead_letter_counts (day) WHERE NOT folded;

-- Acts of operators. A row inserted here is kept by the triggers of capabilities alone: the view has no rows.
CREATE VIEW operator_acts AS
SELECT NULL::text AS actor, NULL::text AS action, NULL::integer AS tenant_id, NULL::text AS subject, NULL::integer AS jobs,
       NULL::jsonb AS detail, NULL::text AS correlation_id
WHERE false;

-- The tenant of an owner role, for the policies below; its body is in ../functions.
CREATE FUNCTION tenant_of(name) RETURNS integer LANGUAGE plpgsql STABLE AS 'BEGIN RETURN NULL; END';

ALTER TABLE tickets ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tickets ON tickets USING (tenant_id = (SELECT tenant_of(current_user)));

ALTER TABLE outcome_batches ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_outcome_batches ON outcome_batches FOR INSERT WITH CHECK (tenant_id = (SELECT tenant_of(current_user)));

ALTER TABLE dead_letters ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_dead_letters ON dead_letters USING (tenant_id = (SELECT tenant_of(current_user)));

ALTER TABLE part_looks ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_part_looks ON part_looks FOR INSERT WITH CHECK (tenant_id = (SELECT tenant_of(current_user)));

CREATE TRIGGER reset_quota AFTER UPDATE OF jobs_per_day ON tenants FOR EACH ROW
    WHEN (OLD.jobs_per_day IS DISTINCT FROM NEW.jobs_per_day) EXECUTE FUNCTION quota_reset();
CREATE TRIGGER reset_quota AFTER INSERT OR UPDATE OF jobs_per_day ON job_types FOR EACH ROW EXECUTE FUNCTION quota_reset();
CREATE TRIGGER act INSTEAD OF INSERT ON operator_acts FOR EACH ROW EXECUTE FUNCTION operator_act();

-- Triggers, so that no function can omit the next job of a key; a ticket without a key does not call them.
CREATE TRIGGER key_moved AFTER UPDATE OF state ON tickets FOR EACH ROW
    WHEN (NEW.concurrency_key IS NOT NULL) EXECUTE FUNCTION key_moved();
CREATE TRIGGER key_left AFTER DELETE ON tickets FOR EACH ROW
    WHEN (OLD.concurrency_key IS NOT NULL) EXECUTE FUNCTION key_moved();
CREATE TRIGGER key_unblocked AFTER UPDATE OF closed_at ON dead_letters FOR EACH ROW
    WHEN (NEW.key_position IS NOT NULL AND OLD.closed_at IS NULL AND NEW.closed_at IS NOT NULL)
    EXECUTE FUNCTION key_moved();
CREATE TRIGGER part_left AFTER DELETE ON tickets FOR EACH ROW
    WHEN (OLD.awaited_by IS NOT NULL) EXECUTE FUNCTION part_left();
CREATE TRIGGER count AFTER INSERT OR UPDATE OF closed_at OR DELETE ON dead_letters
    FOR EACH ROW EXECUTE FUNCTION count_dead_letter();

-- The operator's views of jobs have the same columns; here the failures.
CREATE VIEW failed_jobs AS
SELECT d.job_id, n.slug AS tenant, c.slug AS company, d.type,
       CASE d.outcome WHEN 'failed' THEN 'failed' ELSE 'completed' END AS status, d.outcome, d.error, d.died_at AS at,
       d.closed_as, d.items_done AS done, d.items_failed AS failed,
       NULL::timestamptz AS run_at, NULL::smallint AS priority, NULL::boolean AS parked, NULL::text AS stage
FROM dead_letters d JOIN tenants n ON n.id = d.tenant_id AND n.state = 'active' JOIN companies c ON c.id = n.company_id;

-- Each outcome of a batch as a row.
CREATE VIEW outcomes AS
SELECT b.tenant_id, b.type, b.outcome, b.at, o.job_id, o.wait_ms, o.run_ms, o.items_done, o.items_failed, b.position
FROM outcome_batches b CROSS JOIN LATERAL unnest(b.jobs, b.wait_ms, b.run_ms, b.items_done, b.items_failed)
    AS o (job_id, wait_ms, run_ms, items_done, items_failed);

-- Jobs that completed or were cancelled, without the jobs in failed_jobs. A part with failed items is here if its job
-- counts the items.
CREATE VIEW ended_jobs AS
SELECT o.job_id, n.slug AS tenant, c.slug AS company, o.type,
       CASE WHEN o.outcome IN ('cancelled', 'expired') THEN 'cancelled' ELSE 'completed' END AS status, o.outcome, NULL::text AS error, o.at,
       NULL::text AS closed_as, NULL::integer AS done, NULL::integer AS failed,
       NULL::timestamptz AS run_at, NULL::smallint AS priority, NULL::boolean AS parked, NULL::text AS stage
FROM outcomes o JOIN tenants n ON n.id = o.tenant_id AND n.state = 'active' JOIN companies c ON c.id = n.company_id
WHERE o.job_id IS NOT NULL
  AND (o.outcome IN ('completed', 'cancelled', 'expired')
       OR o.outcome IN ('completed_with_failures', 'nothing_done') AND o.items_failed IS NULL);

-- Open jobs, with the due time as `at`. A parked job, which waits for a person, has no run_at.
CREATE VIEW open_jobs AS
SELECT t.job_id, n.slug AS tenant, c.slug AS company, t.type,
       CASE t.state WHEN 'running' THEN 'running' ELSE 'pending' END AS status, NULL::text AS outcome, NULL::text AS error,
       due.run_at AS at, NULL::text AS closed_as, NULL::integer AS done, NULL::integer AS failed,
       due.run_at, t.priority, t.state = 'review' AS parked,
       CASE WHEN t.state = 'running' THEN CASE WHEN t.cancel_at IS NOT NULL THEN 'cancelling' END
            WHEN t.retrying THEN 'retrying' END AS stage, t.state, t.worker_id, t.claimed_at
FROM tickets t JOIN tenants n ON n.id = t.tenant_id AND n.state = 'active' JOIN companies c ON c.id = n.company_id
CROSS JOIN LATERAL (SELECT CASE WHEN isfinite(t.run_at) THEN t.run_at END AS run_at) AS due;

-- The operator's view of tickets: a view runs as its owner, which is exempt from the policies.
CREATE VIEW ticket_counts AS
SELECT tenant_id, queue, type, backend, priority, state, count(*) AS tickets,
       min(run_at) FILTER (WHERE isfinite(run_at)) AS oldest
FROM tickets GROUP BY tenant_id, queue, type, backend, priority, state;

-- Declared for the views; the bodies are in ../functions.
CREATE FUNCTION is_end(p_outcome text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT NULL::boolean';
CREATE FUNCTION wait_at(p_bucket smallint, p_waits numeric, p_ms numeric, p_rank numeric) RETURNS float8
    LANGUAGE sql IMMUTABLE AS 'SELECT NULL::float8';

-- The operator's view of tenants: settings, present jobs, and over the last 15 minutes the share of all running time
-- beside the share of the tenant's weight among the tenants that had jobs. The percentiles of waits are as in wait_at.
CREATE VIEW tenant_shares AS
WITH present AS (
    SELECT tenant_id,
           count(*) FILTER (WHERE state = 'ready') AS waiting,
           count(*) FILTER (WHERE state = 'running') AS running,
           clock_timestamp() - min(run_at) FILTER (WHERE state = 'ready') AS oldest_wait
    FROM tickets WHERE state IN ('ready', 'running') GROUP BY tenant_id
), lately AS (
    SELECT scope AS tenant_id, s.*
    FROM statistics s
    WHERE minute > now() - interval '15 minutes' AND scope > 0 AND outcome NOT IN ('rescued', 'claim_lost')
), recent AS (
    SELECT tenant_id, coalesce(sum(outcomes) FILTER (WHERE is_end(outcome)), 0)::bigint AS ended, sum(run_ms) AS run_ms
    FROM lately GROUP BY tenant_id
), ranked AS (
    SELECT l.tenant_id, w.bucket, sum(w.n) AS n, sum(w.ms) AS ms,
           sum(sum(w.n)) OVER (PARTITION BY l.tenant_id ORDER BY w.bucket) - sum(w.n) AS before,
           sum(sum(w.n)) OVER (PARTITION BY l.tenant_id) AS waits
    FROM lately l CROSS JOIN LATERAL unnest(l.wait_buckets, l.counts, l.wait_ms) AS w (bucket, n, ms)
    GROUP BY l.tenant_id, w.bucket
), percentiles AS (
    SELECT tenant_id, round(max(wait_at(bucket, n, ms, ceil(0.5 * waits) - before)))::integer AS wait_p50_ms,
           round(max(wait_at(bucket, n, ms, ceil(0.95 * waits) - before)))::integer AS wait_p95_ms
    FROM ranked GROUP BY tenant_id
), shares AS MATERIALIZED (  -- once, not for each tenant
    SELECT tenant_id, p.waiting, p.running, p.oldest_wait, r.ended, w.wait_p50_ms, w.wait_p95_ms,
           coalesce(r.run_ms, 0)::numeric / nullif(sum(r.run_ms) OVER (), 0) AS share,
           n.weight::numeric / sum(n.weight) OVER () AS fair_share
    FROM present p FULL JOIN recent r USING (tenant_id) LEFT JOIN percentiles w USING (tenant_id)
    JOIN tenants n ON n.id = tenant_id
)
SELECT n.slug AS tenant, c.slug AS company, n.schema, n.paused_at, n.weight, n.cap, n.jobs_per_day, n.backend, n.queue,
       n.alert_failure_percent::float8, n.alert_wait_minutes,
       s.tenant_id IS NOT NULL AS busy, coalesce(s.waiting, 0) AS waiting, coalesce(s.running, 0) AS running,
       extract(epoch FROM s.oldest_wait)::float8 AS oldest_wait, coalesce(s.ended, 0) AS ended,
       s.wait_p50_ms, s.wait_p95_ms, s.share::float8 AS share, s.fair_share::float8 AS fair_share
FROM tenants n JOIN companies c ON c.id = n.company_id LEFT JOIN shares s ON s.tenant_id = n.id
WHERE n.state = 'active';

CREATE VIEW failed_job_counts AS
SELECT n.slug AS tenant, c.slug AS company, k.type, k.outcome, k.error, k.day, k.jobs, k.open, k.items, k.first_at,
       k.last_at
FROM dead_letter_counts k JOIN tenants n ON n.id = k.tenant_id AND n.state = 'active'
JOIN companies c ON c.id = n.company_id;

-- The time since which the oldest job waits for the relay, and the number of open dead letters.
CREATE VIEW backlogs AS
SELECT (SELECT min(t.run_at)
        FROM backends b JOIN tickets t ON t.state = 'ready' AND t.backend = b.name AND t.published_at IS NULL
        WHERE b.relayed) AS unpublished_since,
       (SELECT coalesce(sum(open), 0)::bigint FROM dead_letter_counts) AS open_dead_letters;

-- Living workers and tickets by backend; stranded jobs wait for a worker of a backend that launches none.
CREATE VIEW backend_counts AS
SELECT c.backend, c.workers, c.scheduled, c.waiting, c.published, c.running,
       CASE WHEN c.workers = 0 AND c.backend <> 'exec' THEN c.waiting ELSE 0 END AS stranded, c.oldest
FROM (
    SELECT b.name AS backend,
           (SELECT count(*) FROM workers w WHERE w.backend = b.name) AS workers,
           count(t.job_id) FILTER (WHERE t.state = 'scheduled') AS scheduled,
           count(t.job_id) FILTER (WHERE t.state = 'ready') AS waiting,
           count(t.job_id) FILTER (WHERE t.state = 'ready' AND t.published_at IS NOT NULL) AS published,
           count(t.job_id) FILTER (WHERE t.state = 'running') AS running,
           min(t.run_at) FILTER (WHERE t.state = 'ready') AS oldest
    FROM backends b LEFT JOIN tickets t ON t.backend = b.name
    GROUP BY b.name) AS c;

-- Types that can be run now: types of living workers, and for exec the types of the last worker of each host. A worker
-- that was silent for 2 minutes and is still listed does not count: no sweep has removed it.
CREATE VIEW serving AS
SELECT backend, queues, types, versions FROM workers WHERE alive_at > clock_timestamp() - interval '2 minutes'
UNION ALL
SELECT 'exec', NULL, types, versions FROM exec_hosts;

-- A job to enqueue, as each source of jobs describes it. A NULL field takes its default.
-- Columns of background_jobs have the same names and check the values.
CREATE TYPE new_job AS (
    id uuid,  -- given by jobs_enqueue
    type text, version smallint, queue text, backend text, priority smallint, max_attempts integer, payload jsonb,
    user_id text, run_at timestamptz, run_in interval, expires_at timestamptz,
    -- How long the idempotency key identifies the job; with either of the next two and without a key, the payload is the key.
    idempotency_key text, unique_for interval, unique_while text,
    -- Of the request that the key identifies; NULL: computed from the fields above.
    payload_hash bytea,
    -- NULL or empty: none.
    concurrency_key text, key_position bigint,
    correlation_id text, trace_context text, parent_id uuid, awaited_by uuid, origin text
);

-- The row that every claiming function returns.
CREATE TYPE claimed AS (
    job_id uuid, token uuid, attempt integer, type text, version smallint,
    tenant_id integer, slug text, schema text, handler_role text, login_epoch integer, adopted_schema text,
    parent_schema text
);
