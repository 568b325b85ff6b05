-- Moves ready tickets whose backend has no living worker to a backend that has a worker: if possible to the caller's
-- own. A caller that launches workers itself counts as alive without any.
CREATE OR REPLACE FUNCTION move_unserved(p_backend text, p_waiting_for interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    alive text[] := ARRAY(SELECT backend FROM workers UNION SELECT p_backend WHERE p_backend = 'exec');
    -- By their names, so that the index skips the tickets of backends with a living worker.
    dead text[] := ARRAY(SELECT name FROM backends WHERE name <> ALL (alive));
    target text := CASE WHEN p_backend = ANY (alive) THEN p_backend ELSE alive[1] END;
    jobs uuid[];
BEGIN
    IF alive = '{}' THEN
        RETURN 0;
    END IF;
    jobs := ARRAY(SELECT t.job_id FROM tickets t
                  WHERE t.state = 'ready' AND t.backend = ANY (dead) AND t.run_at <= clock_timestamp() - p_waiting_for
                  LIMIT 1000 FOR UPDATE SKIP LOCKED);
    RETURN tickets_change(jobs, array_fill(target, ARRAY[cardinality(jobs)]));
END $$;
