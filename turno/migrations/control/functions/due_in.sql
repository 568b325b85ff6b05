-- The seconds until the next ticket, the next job of a key or the next check of a job's parts is due; NULL if more than
-- p_within. A worker without work looks again then. Tickets that are due for longer than 2 s do not count: promote has
-- seen them.
CREATE OR REPLACE FUNCTION due_in(p_within interval) RETURNS double precision
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    now timestamptz := clock_timestamp();
    since timestamptz := now - interval '2 s';
BEGIN
    RETURN (SELECT extract(epoch FROM min(d.at) - now) FROM (
        (SELECT t.run_at::timestamptz AS at FROM tickets t
         WHERE t.state = 'scheduled' AND t.run_at > since AND t.run_at <= now + p_within
         ORDER BY t.run_at LIMIT 1)
        UNION ALL
        (SELECT k.at FROM key_looks k WHERE k.at > since AND k.at <= now + p_within ORDER BY k.at LIMIT 1)
        UNION ALL
        (SELECT l.at FROM part_looks l WHERE l.at > since AND l.at <= now + p_within ORDER BY l.at LIMIT 1)) AS d);
END $$;
