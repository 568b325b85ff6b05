-- Asked by row-level security in every statement of a tenant's functions: in a language that keeps its plans.
CREATE OR REPLACE FUNCTION tenant_of(p_owner name) RETURNS integer
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    RETURN (SELECT id FROM tenants WHERE owner_role = p_owner);
END $$;

-- The broker has confirmed these. Whoever was claimed meanwhile is left as it is. Not asked for their state, or the
-- list of all that are ready would offer itself where one ticket is named.
CREATE OR REPLACE FUNCTION mark_published(p_jobs uuid[], p_attempts integer[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    marked bigint;
BEGIN
    -- Lost with the server, a mark only means that its message is sent again, and a message proves nothing.
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE tickets t SET published_at = clock_timestamp()
    FROM unnest(p_jobs, p_attempts) AS sent (job_id, attempt)
    WHERE t.job_id = ANY (p_jobs) AND t.job_id = sent.job_id AND t.attempt = sent.attempt
      AND t.worker_id IS NULL AND t.backend = 'rabbitmq';
    GET DIAGNOSTICS marked = ROW_COUNT;
    RETURN marked;
END $$;

-- Due tickets become ready, the oldest first; bounded, so that a claim never pays for a night's worth at once.
-- What was promoted leaves dead entries as well, so those that wait for their time are a lane, too.
CREATE OR REPLACE FUNCTION promote(p_limit integer, p_dry_run boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    waiting lane := ('', '', '', 0, 'due', false, false, NULL, NULL);
    since timestamptz := clock_timestamp();
    known mark := (marks(waiting, 0))[1];
    here spot := spot_of(0);
    walked bigint := pg_stat_get_xact_tuples_returned('tickets_due'::regclass);
    promoted spot[];
BEGIN
    IF p_dry_run THEN
        RETURN (SELECT count(*) FROM tickets t WHERE t.state = 'scheduled' AND t.run_at <= since);
    END IF;
    IF known.busy_until > since THEN
        here := (0, 0, known.run_at, known.job_id);
    END IF;
    WITH due AS (
        SELECT t.job_id FROM tickets t
        WHERE t.state = 'scheduled' AND (t.run_at, t.job_id) >= (here.run_at, here.job_id) AND t.run_at <= since
        ORDER BY t.run_at, t.job_id LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ), ready AS (
        UPDATE tickets t SET state = 'ready' WHERE t.job_id = ANY (ARRAY(SELECT job_id FROM due)) RETURNING t.run_at, t.job_id
    )
    SELECT array_agg((0, 0, run_at, job_id)::spot ORDER BY run_at, job_id) INTO promoted FROM ready;
    walked := pg_stat_get_xact_tuples_returned('tickets_due'::regclass) - walked;
    IF walked > p_limit + 100 THEN
        PERFORM remember_mark(waiting, here, coalesce(promoted[1], spot_of(0, 0, since)),
                              least(greatest(20 * (clock_timestamp() - since), '1 s'), '5 s'), '0 s');
    END IF;
    RETURN coalesce(cardinality(promoted), 0);
END $$;

-- Take one named ticket if it may run now. Whatever backend it is stamped with: a hint that
-- arrives by another road is as good, and the ticket can be taken once.
CREATE OR REPLACE FUNCTION claim_job(p_worker uuid, p_job uuid, p_types text[], p_versions smallint[]) RETURNS SETOF claimed
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    named tickets;
BEGIN
    -- A claim may be lost with the server: what would know of it are sessions, and they are lost with it.
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT t.* INTO named FROM tickets t
    JOIN unnest(p_types, p_versions) AS known (type, version) USING (type, version)
    WHERE t.job_id = p_job;
    IF NOT FOUND OR NOT worker_hold(p_worker) THEN
        RETURN;
    END IF;
    -- Unlike `claim` it waits for a capped row: there is no other ticket to take instead. It holds nothing
    -- that a claim waits for, as claims wait for nothing.
    PERFORM FROM tenants WHERE id = named.tenant_id AND cap IS NOT NULL FOR NO KEY UPDATE;
    IF FOUND AND tenant_room(named.tenant_id) <= 0 THEN
        RETURN;
    END IF;
    PERFORM FROM job_types WHERE type = named.type AND cap IS NOT NULL FOR NO KEY UPDATE;
    IF FOUND AND type_room(named.type) <= 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
        UPDATE tickets t
        SET state = 'running', worker_id = p_worker, token = gen_random_uuid(), attempt = t.attempt + 1
        FROM tenants n
        WHERE t.job_id = p_job
          AND (t.state = 'ready' OR t.state = 'scheduled' AND t.run_at <= clock_timestamp())
          AND n.id = t.tenant_id AND n.state = 'active' AND n.paused_at IS NULL
          AND NOT EXISTS (SELECT FROM job_types j WHERE j.type = t.type AND j.paused_at IS NOT NULL)
        RETURNING t.job_id, t.token, t.attempt, t.type, t.version,
                  n.id, n.slug, n.schema, n.handler_role, n.login_epoch;
END $$;

-- Like lease_take, but the holder may go on, and says when it leaves.
CREATE OR REPLACE FUNCTION lease_keep(p_name text, p_holder text, p_for interval) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    -- Lost with the server, it is only taken again.
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO leases (name, holder, until) VALUES (p_name, p_holder, clock_timestamp() + p_for)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE leases.holder = p_holder OR leases.until <= clock_timestamp();
    RETURN FOUND;
END $$;

-- Plans are made while the table is small and kept when it is not.
ALTER FUNCTION worker_alive SET enable_seqscan = off;
ALTER FUNCTION orphans SET enable_seqscan = off;
ALTER FUNCTION held SET enable_seqscan = off;
ALTER FUNCTION claim_job SET enable_seqscan = off;
ALTER FUNCTION claim_message SET enable_seqscan = off;
ALTER FUNCTION mark_published SET enable_seqscan = off;
ALTER FUNCTION unpublish SET enable_seqscan = off;
ALTER FUNCTION unclaimed SET enable_seqscan = off;
ALTER FUNCTION restamp SET enable_seqscan = off;
