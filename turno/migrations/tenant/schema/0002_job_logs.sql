-- What attempts logged: written by the worker, not in the job's transaction, so it is there whatever became of that.
CREATE TABLE background_job_logs (
    job_id  uuid NOT NULL,
    attempt integer NOT NULL,
    -- Of the line within its attempt, from 1: a gap says that lines were left out.
    number  bigint NOT NULL,
    at      timestamptz NOT NULL,
    level   text NOT NULL,
    logger  text NOT NULL,
    line    text NOT NULL,
    PRIMARY KEY (job_id, attempt, number)
);
