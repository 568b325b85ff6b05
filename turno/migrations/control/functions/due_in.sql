-- In how many seconds the next ticket is due, if in at most p_within; who has nothing to do looks again then. What is due
-- already does not count: promote has been asked.
CREATE OR REPLACE FUNCTION due_in(p_within interval) RETURNS double precision
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    now timestamptz := clock_timestamp();
BEGIN
    RETURN (SELECT extract(epoch FROM t.run_at - now) FROM tickets t
            WHERE t.state = 'scheduled' AND t.run_at > now AND t.run_at <= now + p_within
            ORDER BY t.run_at LIMIT 1);
END $$;
