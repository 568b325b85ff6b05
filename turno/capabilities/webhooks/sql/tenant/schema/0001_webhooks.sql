-- Declared here for the trigger; the body is in ../functions.
CREATE FUNCTION webhooks_forget() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER webhooks_forget AFTER DELETE ON background_jobs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION webhooks_forget();
