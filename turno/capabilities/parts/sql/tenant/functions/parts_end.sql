-- A job failed or was cancelled: its open parts are cancelled, and if it is a part that stops its job, that job continues.
CREATE OR REPLACE FUNCTION parts_end() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM parts_cancel(NEW.id, 'the job that it is a part of has ended');
    IF EXISTS (SELECT FROM background_job_parts b WHERE b.part_id = NEW.id AND b.job_id = NEW.awaited_by AND b.stops) THEN
        PERFORM job_wake(NEW.awaited_by);
    END IF;
    RETURN NULL;
END $$;
