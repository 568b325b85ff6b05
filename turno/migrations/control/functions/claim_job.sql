-- Claim a named ticket if it may run now, with any backend: a hint may arrive by another way, and a ticket is claimed once.
CREATE OR REPLACE FUNCTION claim_job(p_worker uuid, p_job uuid, p_types text[], p_versions smallint[]) RETURNS SETOF claimed
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    named tickets;
BEGIN
    -- A claim may be lost with the server: the sessions that received it are lost, too.
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT t.* INTO named FROM tickets t
    JOIN unnest(p_types, p_versions) AS known (type, version) USING (type, version)
    WHERE t.job_id = p_job AND EXISTS (SELECT FROM workers w WHERE w.id = p_worker FOR KEY SHARE);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- Unlike `claim` it waits for a capped row: there is no other ticket to take instead. It holds nothing
    -- that a claim waits for, as claims wait for nothing.
    PERFORM FROM tenants WHERE id = named.tenant_id AND cap IS NOT NULL FOR NO KEY UPDATE;
    IF FOUND AND tenant_capacity(named.tenant_id) <= 0 THEN
        RETURN;
    END IF;
    PERFORM FROM job_types WHERE type = named.type AND cap IS NOT NULL FOR NO KEY UPDATE;
    IF FOUND AND type_capacity(named.type) <= 0 THEN
        RETURN;
    END IF;
    IF named.concurrency_key IS NOT NULL AND named.state = 'scheduled' THEN
        -- If the job is the next of its key, no worker has to promote the ticket first.
        PERFORM tickets_change(ARRAY(SELECT t.job_id FROM tickets t
                                     WHERE t.job_id = p_job AND t.state = 'scheduled' AND t.run_at <= clock_timestamp()
                                     FOR NO KEY UPDATE SKIP LOCKED));
        PERFORM key_look(named.tenant_id, named.concurrency_key);
    END IF;
    RETURN QUERY
        UPDATE tickets t
        SET state = 'running', worker_id = p_worker, claimed_at = clock_timestamp(),
            token = gen_random_uuid(), attempt = t.attempt + 1
        FROM tenants n
        WHERE t.job_id = p_job
          AND (t.state = 'ready'
               OR t.state = 'scheduled' AND t.run_at <= clock_timestamp() AND t.concurrency_key IS NULL)
          AND n.id = t.tenant_id AND n.state = 'active' AND n.paused_at IS NULL
          AND NOT EXISTS (SELECT FROM job_types j WHERE j.type = t.type AND j.paused_at IS NOT NULL)
        RETURNING t.job_id, t.token, t.attempt, t.type::text, t.version,
                  n.id, n.slug, n.schema, n.handler_role, n.login_epoch, n.adopted_schema, n.parent_schema;
END $$;

-- Return a claim that no process received: its job was not started, so the ticket alone is put back as it was, and no lock
-- on its tenant's tables can delay that. With a wait no worker claims the ticket before the wait is over.
CREATE OR REPLACE FUNCTION unclaim(p_job uuid, p_token uuid, p_wait interval) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    -- Lost with the server, it is found by the worker's heartbeat.
    SELECT set_config('synchronous_commit', 'off', true);
    UPDATE tickets
    SET state = CASE WHEN p_wait > interval '0' THEN 'scheduled' ELSE 'ready' END,
        run_at = CASE WHEN p_wait > interval '0' THEN clock_timestamp() + p_wait ELSE run_at END,
        worker_id = NULL, token = NULL, claimed_at = NULL, attempt = attempt - 1, published_at = NULL
    WHERE job_id = p_job AND token = p_token AND state = 'running';
END;
