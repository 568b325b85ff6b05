-- The key of jobs of which few run at a time, and whether an idempotency key stands for its job for ever.
ALTER TABLE background_jobs
    ADD COLUMN concurrency_key text,
    ADD COLUMN key_for_ever boolean NOT NULL DEFAULT false;
-- Made of the payload when a schedule is saved: the sweep that makes its jobs may not read payloads.
ALTER TABLE job_schedules ADD COLUMN concurrency_key text;

-- Keys that stand for a job for ever, of jobs that were purged.
CREATE TABLE background_job_keys (
    user_id         text NOT NULL,
    type            text NOT NULL,
    idempotency_key text NOT NULL,
    job_id          uuid NOT NULL,
    payload_hash    bytea,
    PRIMARY KEY (user_id, type, idempotency_key)
);

-- These take more parameters now.
DROP FUNCTION IF EXISTS job_enqueue(text, smallint, text, text, smallint, integer, jsonb, text, timestamptz, timestamptz,
                                    text, text, text, uuid, integer, bigint[], interval, boolean);
DROP FUNCTION IF EXISTS jobs_enqueue(text, smallint, text, text, smallint, integer, jsonb[], text[], text, timestamptz,
                                     interval, integer);
DROP FUNCTION IF EXISTS jobs_insert(text, smallint, text, text, smallint, integer, jsonb[], text[], bytea[], text,
                                    timestamptz);
DROP FUNCTION IF EXISTS job_enqueue_child(uuid, uuid, text, smallint, text, smallint, integer, jsonb, timestamptz,
                                          timestamptz, text, interval);
DROP FUNCTION IF EXISTS key_expire(text, text, text[], interval);
DROP FUNCTION IF EXISTS schedule_put(text, text, jsonb, smallint, text, text, integer, text, integer, text, timestamptz,
                                     text, boolean, boolean, integer);
DROP FUNCTION IF EXISTS ticket_put(uuid, text, text, smallint, smallint, timestamptz, text, integer);
