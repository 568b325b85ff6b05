-- Record a heartbeat; returns the jobs of the worker to be stopped and the orders of operators: to claim nothing more, or to
-- stop, and the seconds that attempts of some types may take. No row: the worker was declared dead, others may run its jobs,
-- and it must stop itself.
CREATE OR REPLACE FUNCTION worker_alive(p_worker uuid) RETURNS TABLE (to_stop uuid[], request text, timeouts jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY UPDATE workers w SET alive_at = clock_timestamp() WHERE w.id = p_worker
    RETURNING ARRAY(SELECT t.job_id FROM tickets t
                    WHERE t.state = 'running' AND t.worker_id = p_worker AND t.cancel_at IS NOT NULL),
              w.request,
              (SELECT coalesce(jsonb_object_agg(j.type, j.timeout), '{}') FROM job_types j WHERE j.timeout IS NOT NULL);
END $$;
