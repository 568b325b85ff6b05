-- Pause a schedule, or with p_next_at resume it from that moment on: earlier moments do not count as missed. Returns
-- changed, same (already in this state), or unknown.
CREATE OR REPLACE FUNCTION schedule_switch(p_name text, p_next_at timestamptz, p_only text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    own record;
BEGIN
    SELECT s.id, s.paused_at IS NOT NULL AS paused INTO own FROM job_schedules s
    WHERE s.name = p_name AND (p_only IS NULL OR s.user_id = p_only) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    ELSIF own.paused = (p_next_at IS NULL) THEN
        RETURN 'same';
    END IF;
    PERFORM schedule_take_back(own.id);
    UPDATE job_schedules s
    SET paused_at = CASE WHEN p_next_at IS NULL THEN clock_timestamp() END, next_at = p_next_at,
        decided_at = clock_timestamp(), problem = NULL
    WHERE s.id = own.id;
    RETURN 'changed';
END $$;
