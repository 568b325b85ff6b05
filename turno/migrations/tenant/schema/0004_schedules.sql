-- Jobs that are made again and again. The sweep makes a job for each moment a little ahead of it, as a job with a run_at
-- like any other, in the transaction that decides the schedule's next moment.
CREATE TABLE job_schedules (
    id          uuid PRIMARY KEY DEFAULT turno.uuid_v7(),
    name        text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    type        turno.type_name NOT NULL,
    payload     turno.job_payload NOT NULL,
    priority    smallint NOT NULL CHECK (priority BETWEEN 0 AND 2),
    -- Whose jobs these are.
    user_id     turno.user_name NOT NULL,
    -- One of both: five fields, read in the zone, or seconds since 1970-01-01 00:00 UTC.
    cron        text CHECK (length(cron) BETWEEN 1 AND 200),
    every       integer CHECK (every BETWEEN 60 AND 31622400),
    zone        text NOT NULL CHECK (length(zone) BETWEEN 1 AND 64),
    -- It fires so many seconds later at the most; how many its name decides.
    spread      integer NOT NULL CHECK (spread BETWEEN 0 AND 86400),
    -- What becomes of moments for which no job was made in time, because nobody swept.
    missed      text NOT NULL CHECK (missed IN ('skip', 'once', 'all')),
    paused_at   timestamptz,
    next_at     timestamptz,
    decided_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Why the last moment had no job, and how many had none since it was made.
    problem     turno.job_words,
    missed_runs bigint NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (num_nonnulls(cron, every) = 1),
    CHECK ((paused_at IS NULL) = (next_at IS NOT NULL))
);

-- The job of each moment: no two jobs for one, whoever sweeps, and whatever the clock does. A row goes with its job.
CREATE TABLE job_schedule_runs (
    schedule_id uuid NOT NULL,
    moment      timestamptz NOT NULL,
    job_id      uuid NOT NULL UNIQUE,
    PRIMARY KEY (schedule_id, moment)
);

-- Declared here for the trigger; the body is in ../functions.
CREATE FUNCTION schedule_mirror() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER mirror AFTER INSERT OR UPDATE OR DELETE ON job_schedules FOR EACH ROW EXECUTE FUNCTION schedule_mirror();
