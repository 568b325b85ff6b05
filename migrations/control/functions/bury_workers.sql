-- A worker that was silent for too long is taken off the list. Its tickets then belong to
-- no worker, which is what `orphans` finds, now or after a crash of the caller.
CREATE OR REPLACE FUNCTION bury_workers(p_silent_for interval, p_dry_run boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    buried bigint;
BEGIN
    IF p_dry_run THEN
        SELECT count(*) INTO buried FROM workers WHERE alive_at < clock_timestamp() - p_silent_for;
        RETURN buried;
    END IF;
    DELETE FROM workers WHERE alive_at < clock_timestamp() - p_silent_for;
    GET DIAGNOSTICS buried = ROW_COUNT;
    RETURN buried;
END $$;
