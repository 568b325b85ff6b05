-- Maintenance inserts one job for each moment of a schedule, a little ahead of the moment, in the transaction that decides
-- the schedule's next moment.
CREATE TABLE job_schedules (
    id          uuid PRIMARY KEY DEFAULT turno.uuid_v7(),
    name        text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    type        turno.type_name NOT NULL,
    payload     turno.job_payload NOT NULL,
    priority    smallint NOT NULL CHECK (priority BETWEEN 0 AND 2),
    -- One of the queues of the type; NULL: the queue of the type.
    queue       turno.queue_name,
    -- The user of the jobs.
    user_id     turno.user_name NOT NULL,
    -- One of both: five fields, read in the zone, or seconds since 1970-01-01 00:00 UTC.
    cron        text CHECK (length(cron) BETWEEN 1 AND 200),
    every       integer CHECK (every BETWEEN 60 AND 31622400),
    zone        text NOT NULL CHECK (length(zone) BETWEEN 1 AND 64),
    -- Largest delay of a moment, in seconds; the schedule's name decides the delay.
    spread      integer NOT NULL CHECK (spread BETWEEN 0 AND 86400),
    -- The treatment of moments without a job, if no maintenance ran in time.
    missed      text NOT NULL CHECK (missed IN ('skip', 'once', 'all')),
    paused_at   timestamptz,
    next_at     timestamptz,
    decided_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The reason why the last moment got no job, and the number of moments without a job.
    problem     turno.job_words,
    missed_runs bigint NOT NULL DEFAULT 0,
    -- The jobs that had not ended at the last firing.
    open_jobs   uuid[] NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Derived from the payload when the schedule is saved: maintenance may not read payloads.
    concurrency_key turno.concurrency_key,
    CHECK (num_nonnulls(cron, every) = 1),
    CHECK ((paused_at IS NULL) = (next_at IS NOT NULL))
);

-- The job of each moment: at most one, also if two processes maintain or the clock is set back. A row is deleted with its job.
CREATE TABLE job_schedule_runs (
    schedule_id uuid NOT NULL,
    moment      timestamptz NOT NULL,
    job_id      uuid NOT NULL UNIQUE,
    PRIMARY KEY (schedule_id, moment)
);

CREATE TRIGGER mirror AFTER INSERT OR UPDATE OR DELETE ON job_schedules FOR EACH ROW EXECUTE FUNCTION schedule_mirror();

CREATE OR REPLACE TRIGGER schedule_runs_forget AFTER DELETE ON background_jobs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION job_rows_forget('job_schedule_runs', 'turno.template_runs');
