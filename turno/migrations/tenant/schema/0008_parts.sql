-- The jobs that a job was split into, in the order in which their payloads were given. A retry of the job takes over the
-- parts that are done, so a part may be that of several.
CREATE TABLE background_job_parts (
    job_id  uuid NOT NULL,
    n       integer NOT NULL CHECK (n > 0),
    part_id uuid NOT NULL,
    -- Whether the job goes on at once if this part fails, and cancels the others.
    stops   boolean NOT NULL,
    PRIMARY KEY (job_id, n)
);
CREATE INDEX background_job_parts_of_part ON background_job_parts (part_id);
