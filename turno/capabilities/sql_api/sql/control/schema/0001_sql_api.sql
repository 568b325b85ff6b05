-- A job as its application sees it. `outcome` is null while the job is open, `run_at` while a person decides. `error` is the
-- message of an error for users, otherwise its reference.
CREATE TYPE application_job AS (
    job_id uuid, type text, status text, outcome text, reason text, done integer, failed integer, total integer, message text,
    result jsonb, error text, run_at timestamptz, created_at timestamptz, started_at timestamptz, finished_at timestamptz,
    retried_as uuid);
