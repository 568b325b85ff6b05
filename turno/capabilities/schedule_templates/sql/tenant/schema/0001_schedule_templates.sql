-- Declared here for the trigger; the body is in ../functions.
CREATE FUNCTION template_runs_forget() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER template_runs_forget AFTER DELETE ON background_jobs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION template_runs_forget();
