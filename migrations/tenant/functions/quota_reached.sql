-- Whether a user has as many jobs waiting and running as allowed. A user's submissions take turns until they are
-- committed: two at once would both see room for one.
CREATE OR REPLACE FUNCTION quota_reached(p_user text, p_limit integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    IF p_limit IS NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(turno.tenant_of(current_user), hashtext(p_user));
    -- Jobs parked for a person do not count: their user could never free the place.
    RETURN (SELECT count(*) FROM (SELECT FROM background_jobs
                                  WHERE user_id = p_user AND finished_at IS NULL AND run_at < 'infinity'
                                  LIMIT p_limit) AS open) >= p_limit;
END $$;
