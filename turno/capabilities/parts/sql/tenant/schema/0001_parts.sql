-- The jobs that a job was split into, in the order of their payloads. A retry of the job takes over the completed parts, so
-- a part may belong to several jobs.
CREATE TABLE background_job_parts (
    job_id  uuid NOT NULL,
    n       integer NOT NULL CHECK (n > 0),
    part_id uuid NOT NULL,
    -- If this part fails, the job continues at once and cancels its remaining parts.
    stops   boolean NOT NULL,
    PRIMARY KEY (job_id, n)
);
CREATE INDEX background_job_parts_of_part ON background_job_parts (part_id);

CREATE TRIGGER parts_end AFTER UPDATE ON background_jobs FOR EACH ROW
    WHEN (NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL AND NEW.status <> 'completed') EXECUTE FUNCTION parts_end();
CREATE OR REPLACE TRIGGER parts_forget AFTER DELETE ON background_jobs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION job_rows_forget('background_job_parts');
