CREATE OR REPLACE FUNCTION job_audit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO background_job_event_rows (job_id, old_status, new_status, attempt, reason)
    VALUES (NEW.id, OLD.status, NEW.status, NEW.attempt, NEW.reason);
    RETURN NULL;
END $$;
