CREATE TABLE job_tags (
    job_id uuid NOT NULL,
    tag    text NOT NULL CHECK (tag COLLATE "C" ~ '^[a-z0-9][a-z0-9._-]{0,49}$'),
    PRIMARY KEY (job_id, tag)
);
CREATE INDEX job_tags_by_tag ON job_tags (tag, job_id);

CREATE TRIGGER job_tags_mirror AFTER INSERT ON job_tags REFERENCING NEW TABLE AS made
    FOR EACH STATEMENT EXECUTE FUNCTION job_tags_mirror();
CREATE OR REPLACE TRIGGER job_tags_forget AFTER DELETE ON background_jobs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION job_rows_forget('job_tags', 'turno.job_tags');
CREATE TRIGGER job_tags_inherit AFTER UPDATE OF successor_id ON background_jobs
    FOR EACH ROW WHEN (OLD.successor_id IS NULL AND NEW.successor_id IS NOT NULL) EXECUTE FUNCTION job_tags_inherit();
