-- Declared here for the triggers; the bodies are in ../functions.
CREATE FUNCTION job_tags_forget() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER job_tags_forget AFTER DELETE ON background_jobs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION job_tags_forget();
CREATE FUNCTION job_tags_inherit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER job_tags_inherit AFTER UPDATE OF successor_id ON background_jobs
    FOR EACH ROW WHEN (OLD.successor_id IS NULL AND NEW.successor_id IS NOT NULL) EXECUTE FUNCTION job_tags_inherit();
