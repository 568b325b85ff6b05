-- Count each change of a job, and record each change of its status; the row of a brief job is itself the record of its end.
CREATE OR REPLACE FUNCTION job_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    NEW.revision := OLD.revision + 1;
    IF NEW.status <> OLD.status THEN
        INSERT INTO background_job_event_rows (job_id, old_status, new_status, attempt, reason)
        VALUES (NEW.id, OLD.status, NEW.status, NEW.attempt, NEW.reason);
    END IF;
    RETURN NEW;
END $$;
