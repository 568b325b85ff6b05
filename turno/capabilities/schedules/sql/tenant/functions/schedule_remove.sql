-- Remove a schedule; its jobs stay, except jobs for future moments. False if no schedule has this name.
CREATE OR REPLACE FUNCTION schedule_remove(p_name text, p_only text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    own uuid;
BEGIN
    SELECT s.id INTO own FROM job_schedules s
    WHERE s.name = p_name AND (p_only IS NULL OR s.user_id = p_only) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM schedule_take_back(own);
    DELETE FROM job_schedules WHERE id = own;
    RETURN true;
END $$;
