-- Whether a user has as many jobs waiting and running as allowed. The caller holds the user's turn.
CREATE OR REPLACE FUNCTION quota_reached(p_user text, p_limit integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    -- Jobs parked for a person do not count: their user could never free the place.
    RETURN (SELECT count(*) FROM (SELECT FROM background_jobs
                                  WHERE user_id = p_user AND finished_at IS NULL AND run_at < 'infinity'
                                  LIMIT p_limit) AS open) >= p_limit;
END $$;
