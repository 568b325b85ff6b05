-- One tenant's jobs. Run with search_path = the tenant's schema, as the tenant's owner role.
-- The functions are in ../functions, a file for each verb, SECURITY DEFINER of that owner: a vulnerability is confined to its
-- tenant. In the schema the name of each function ends with the schema's key; see function_names.py.
--
--   pending -> running -> completed | failed | cancelled
--   running -> pending      retry, reschedule, handed back, rescued
--   pending -> cancelled    cancelled or expired before it ran
--
-- Lock order everywhere: ticket, then job.
-- No foreign keys between the job and its history: their checks would cost every job, and only job_purge removes jobs.

CREATE TABLE background_jobs (
    id                  uuid PRIMARY KEY DEFAULT turno.uuid_v7(),
    type                turno.type_name NOT NULL,
    version             smallint NOT NULL,
    queue               turno.queue_name NOT NULL,
    priority            smallint NOT NULL,
    status              turno.job_status NOT NULL DEFAULT 'pending',
    -- Why the job has this status: rescued, parked for a person, expired, cancelled with the user's name.
    reason              turno.job_words,
    payload             turno.job_payload NOT NULL,
    -- Of the request under the key, if there is a key.
    payload_hash        turno.payload_hash,
    result              turno.job_result,
    error               turno.job_error,
    user_id             turno.user_name NOT NULL,
    correlation_id      turno.correlation_id,
    trace_context       turno.trace_context,
    idempotency_key     turno.idempotency_key,
    -- attempt is the ordinal of the latest run and only grows. Of these runs, errors count against max_attempts and
    -- crashes against three; a run handed back counts as neither.
    attempt             integer NOT NULL DEFAULT 0,
    errors              integer NOT NULL DEFAULT 0,
    crashes             integer NOT NULL DEFAULT 0,
    max_attempts        integer NOT NULL,
    run_at              turno.due_time NOT NULL DEFAULT clock_timestamp(),
    expires_at          turno.expiry_time,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at          turno.moment,
    finished_at         turno.moment,
    cancel_requested_at timestamptz,
    parent_id           uuid,
    -- The job that a retry or a replay created from this job; set once.
    successor_id        uuid,
    revision            integer NOT NULL DEFAULT 1,
    -- The worker of a brief job: its first attempt succeeded before it was shown as running. The row is then the record of
    -- that attempt and of its end.
    worker              turno.job_words,
    -- The job that waits for this job: its user is notified of that job's end only.
    awaited_by          uuid,
    -- When the user read the notification of the end.
    read_at             timestamptz,
    -- The key of jobs of which few run at the same time, and the position in the key's order; the ticket is repaired from
    -- both.
    concurrency_key     text,
    -- For how long the idempotency key identifies this job: while it is open, for ever, or (NULL) while it is kept.
    unique_while        text CHECK (unique_while IN ('open', 'for ever')),
    key_position        bigint,
    -- The capability that created the job, with the id of its row: `schedule <id>`. NULL: a submission created the job.
    origin              text,
    -- The doubt that a person must settle before this parked job continues: the name that its capability gave. NULL:
    -- not parked.
    in_doubt            text,
    -- Few and short, because each statement that writes the table parses them again.
    CHECK ((status = 'pending' OR status = 'running') = (finished_at IS NULL)),
    CHECK (status <> 'running' OR started_at IS NOT NULL AND attempt > 0),
    CHECK (num_nonnulls(result, worker) = 0 OR status = 'completed'),
    CHECK (status <> 'failed' OR error IS NOT NULL),
    CHECK (errors >= 0 AND crashes >= 0 AND errors + crashes <= attempt AND max_attempts > 0 AND priority BETWEEN 0 AND 2)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX background_jobs_once ON background_jobs (user_id, type, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND (finished_at IS NULL OR unique_while IS DISTINCT FROM 'open');
CREATE INDEX background_jobs_of_user ON background_jobs (user_id, id);
-- No index condition mentions status: the planner could choose such an index for a statement that names one job and its
-- status, and keep that plan from when the index was empty. It also keeps starts of jobs out of all indexes.
CREATE INDEX background_jobs_open ON background_jobs (user_id) WHERE finished_at IS NULL;
CREATE INDEX background_jobs_expiring ON background_jobs (expires_at) WHERE finished_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX background_jobs_parked ON background_jobs (in_doubt, id) WHERE in_doubt IS NOT NULL;
CREATE INDEX background_jobs_finished ON background_jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX background_jobs_notified ON background_jobs (user_id, finished_at) INCLUDE (read_at)
    WHERE finished_at IS NOT NULL AND awaited_by IS NULL;
CREATE INDEX background_jobs_awaited ON background_jobs (awaited_by) WHERE awaited_by IS NOT NULL;

-- Idempotency keys that identify a job for ever, of jobs that were purged.
CREATE TABLE background_job_keys (
    user_id         text NOT NULL,
    type            text NOT NULL,
    idempotency_key text NOT NULL,
    job_id          uuid NOT NULL,
    payload_hash    bytea,
    PRIMARY KEY (user_id, type, idempotency_key)
);

-- The view background_job_attempts has no tokens: a claim's token is its pass. It adds the attempts of brief jobs.
CREATE TABLE background_job_attempt_rows (
    job_id        uuid NOT NULL,
    attempt       integer NOT NULL,
    token         uuid NOT NULL,
    worker        turno.job_words NOT NULL,
    -- The PostgreSQL backend of this attempt: a rescue ends it before the job runs again. An attempt that was not shown
    -- as running had no backend to end, and reading the start of a backend copies the activity of all backends.
    backend_pid   integer NOT NULL,
    backend_start timestamptz,
    started_at    turno.moment NOT NULL DEFAULT clock_timestamp(),
    finished_at   turno.moment,
    outcome       text CHECK (outcome IN ('completed', 'error', 'crashed', 'cancelled', 'rescheduled', 'released')),
    error         turno.job_error,
    lost          boolean NOT NULL DEFAULT false,  -- its worker found the claim taken back
    reaped        boolean NOT NULL DEFAULT false,  -- the worker saw the process of this attempt exit
    -- The possible effects outside of the crashed attempt, named by the trigger of a capability: the job does not fail
    -- with it.
    in_doubt      text,
    PRIMARY KEY (job_id, attempt),
    CHECK ((finished_at IS NULL) = (outcome IS NULL))
);
CREATE VIEW background_job_attempts AS
SELECT job_id, attempt, worker, backend_pid, backend_start, started_at, finished_at, outcome, error
FROM background_job_attempt_rows
UNION ALL
SELECT id, attempt, worker, NULL, NULL, started_at, finished_at, 'completed', NULL
FROM background_jobs WHERE worker IS NOT NULL;

CREATE TABLE background_job_progress_rows (
    job_id     uuid PRIMARY KEY,
    done       integer NOT NULL DEFAULT 0 CHECK (done >= 0),
    failed     integer NOT NULL DEFAULT 0 CHECK (failed >= 0),
    total      integer NOT NULL DEFAULT 0 CHECK (total >= 0),
    message    turno.job_words,
    revision   integer NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- The progress of a job with a total includes that of the jobs it waits for, so these write no row that they share.
CREATE VIEW background_job_progress AS
SELECT p.job_id, p.done + coalesce(s.done, 0) AS done, p.failed + coalesce(s.failed, 0) AS failed, p.total, p.message,
       p.revision + coalesce(s.revision, 0) AS revision, greatest(p.updated_at, s.updated_at) AS updated_at
FROM background_job_progress_rows p LEFT JOIN LATERAL (
    SELECT sum(o.done)::integer AS done, sum(o.failed)::integer AS failed, sum(o.revision)::integer AS revision,
           max(o.updated_at) AS updated_at
    FROM background_jobs b JOIN background_job_progress_rows o ON o.job_id = b.id
    WHERE b.awaited_by = p.job_id) AS s ON p.total > 0;

CREATE TABLE background_job_checkpoints (
    job_id     uuid PRIMARY KEY,
    state      turno.job_state NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The ledger of a batch. skipped: the job that is continued had done the item, or it had a lasting error.
CREATE TABLE background_job_items (
    job_id uuid NOT NULL,
    key    turno.item_key NOT NULL,
    state  text NOT NULL CHECK (state IN ('done', 'failed', 'skipped')),
    ref    turno.item_ref,
    error  turno.job_error,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, key),
    CHECK ((state = 'failed') = (error IS NOT NULL))
);
-- A lasting error occurs again in each retry, so that a retry leaves the item out.
CREATE INDEX background_job_items_to_retry ON background_job_items (job_id)
    WHERE state = 'failed' AND NOT error ? 'lasting';

-- The audit of transitions, written by a trigger so that no function can omit it. The view background_job_events adds the
-- creation of each job and the end of brief jobs; their ids precede and follow all others.
CREATE TABLE background_job_event_rows (
    id         bigint GENERATED ALWAYS AS IDENTITY (START WITH 2) PRIMARY KEY,
    job_id     uuid NOT NULL,
    old_status text,
    new_status text NOT NULL,
    attempt    integer NOT NULL,
    reason     text,
    at         timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX background_job_event_rows_of_job ON background_job_event_rows (job_id, id);
CREATE VIEW background_job_events AS
SELECT 1::bigint AS id, id AS job_id, NULL AS old_status, 'pending' AS new_status, 0 AS attempt, NULL AS reason,
       created_at AS at
FROM background_jobs
UNION ALL
SELECT id, job_id, old_status, new_status, attempt, reason, at FROM background_job_event_rows
UNION ALL
SELECT 9223372036854775807, id, 'pending', 'completed', attempt, NULL, finished_at
FROM background_jobs WHERE worker IS NOT NULL;

-- A failed job with its history; kept until it is replayed.
CREATE TABLE background_jobs_dead_letter (
    job_id      uuid PRIMARY KEY,
    type        text NOT NULL,
    version     smallint NOT NULL,
    user_id     text NOT NULL,
    payload     jsonb NOT NULL,
    cause       text NOT NULL,
    error       jsonb NOT NULL,
    attempts    jsonb NOT NULL,
    died_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    replayed_at timestamptz,
    replayed_as uuid,
    -- An operator decided against a replay: the dead letter is removed with its job, as a replayed one is.
    discarded_at timestamptz,
    discarded_by turno.user_name,
    CHECK ((discarded_at IS NULL) = (discarded_by IS NULL)),
    CHECK ((replayed_at IS NULL) = (replayed_as IS NULL))
);

-- One for each time that a job waits for a person's decision.
CREATE TABLE notifications_of_reviews (
    id         uuid PRIMARY KEY DEFAULT turno.uuid_v7(),
    job_id     uuid NOT NULL,
    user_id    text NOT NULL,
    kind       text NOT NULL GENERATED ALWAYS AS ('needs_review') STORED,
    data       jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    read_at    timestamptz
);
CREATE INDEX notifications_of_reviews_of_user ON notifications_of_reviews (user_id, created_at);
CREATE INDEX notifications_of_reviews_of_job ON notifications_of_reviews (job_id);

-- The end of a job notifies its user: the job's row is that notification, under the job's id.
CREATE VIEW notifications_of_ends AS
SELECT j.id, j.id AS job_id, j.user_id::text AS user_id, j.status::text AS kind,
       jsonb_build_object('type', j.type, 'reason', j.reason, 'done', p.done, 'failed', p.failed, 'total', p.total) AS data,
       j.finished_at::timestamptz AS created_at, j.read_at
FROM background_jobs j LEFT JOIN background_job_progress p ON p.job_id = j.id WHERE j.finished_at IS NOT NULL AND j.awaited_by IS NULL;
CREATE VIEW notifications AS SELECT * FROM notifications_of_reviews UNION ALL SELECT * FROM notifications_of_ends;

-- The user's reading of a notification is no change of the job. The row of a brief job is itself the record of its end, which
-- jobs_finish counts.
CREATE TRIGGER changed BEFORE UPDATE ON background_jobs FOR EACH ROW
    WHEN (OLD.read_at IS NOT DISTINCT FROM NEW.read_at AND (NEW.worker IS NULL OR OLD.worker IS NOT NULL))
    EXECUTE FUNCTION job_changed();

-- Log lines of attempts: written by the worker, outside the job's transaction, so they survive its rollback.
CREATE TABLE background_job_logs (
    job_id  uuid NOT NULL,
    attempt integer NOT NULL,
    -- Of the line within its attempt, from 1: a gap marks omitted lines.
    number  bigint NOT NULL,
    at      timestamptz NOT NULL,
    level   text NOT NULL,
    logger  text NOT NULL,
    line    text NOT NULL,
    PRIMARY KEY (job_id, attempt, number)
);

