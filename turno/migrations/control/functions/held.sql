-- The claims of a worker according to the tickets. A claim that the worker does not know had a lost reply.
CREATE OR REPLACE FUNCTION held(p_worker uuid) RETURNS SETOF claimed
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    SELECT t.job_id, t.token, t.attempt, t.type, t.version, n.id, n.slug, n.schema, n.handler_role, n.login_epoch,
           n.adopted_schema
    FROM tickets t JOIN tenants n ON n.id = t.tenant_id
    WHERE t.state = 'running' AND t.worker_id = p_worker;
END;
