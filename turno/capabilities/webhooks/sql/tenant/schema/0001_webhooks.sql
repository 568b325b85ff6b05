CREATE OR REPLACE TRIGGER webhooks_forget AFTER DELETE ON background_jobs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION job_rows_forget('turno.webhooks');
