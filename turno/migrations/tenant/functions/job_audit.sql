CREATE OR REPLACE FUNCTION job_audit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO background_job_events (job_id, old_status, new_status, attempt, reason)
    VALUES (NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.status END, NEW.status, NEW.attempt, NEW.reason);
    RETURN NULL;
END $$;
