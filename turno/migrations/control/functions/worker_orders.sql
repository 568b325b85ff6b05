-- What operators want of a worker, asked with each heartbeat: whether it is to claim nothing more or to stop, and how many
-- seconds an attempt of some types may take instead of what their code says.
CREATE OR REPLACE FUNCTION worker_orders(p_worker uuid, OUT request text, OUT timeouts jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT (SELECT w.request FROM workers w WHERE w.id = p_worker),
           (SELECT coalesce(jsonb_object_agg(t.type, t.timeout), '{}') FROM job_types t WHERE t.timeout IS NOT NULL);
END;
