-- Number of jobs that a capped tenant may start now. The tenant's row stays locked until the claim commits, so that
-- concurrent claims are counted; a tenant with a row locked by another claim has no capacity.
CREATE OR REPLACE FUNCTION tenant_capacity(p_tenant integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    at_most bigint;
BEGIN
    SELECT cap INTO at_most FROM tenants WHERE id = p_tenant FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    RETURN at_most - (SELECT count(*) FROM tickets WHERE state = 'running' AND tenant_id = p_tenant);
END $$;

-- The same for a type, over all tenants; null for a type without a cap.
CREATE OR REPLACE FUNCTION type_capacity(p_type text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    at_most bigint;
BEGIN
    SELECT cap INTO at_most FROM job_types WHERE type = p_type FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    RETURN at_most - (SELECT count(*) FROM tickets WHERE state = 'running' AND type = p_type);
END $$;

-- Claim tickets for up to p_slots children. A slot is a batch of one tenant and type, of at most the type's p_sizes tickets.
-- Tenants take turns from p_from on; a turn is `weight` slots, and p_used slots of the first tenant's turn are already used.
-- Within a tenant the highest priority goes first, then the oldest ticket; with p_oldest the oldest of all priorities.
-- p_types, p_versions and p_sizes are parallel arrays. Tenants in p_without (slugs) are skipped.
--
-- A row with a ticket has the start of the next claim. A row without a ticket is a hint about index entries that were
-- expensive to skip (more than 100 dead entries under an old snapshot, or tickets of other types): the `lanes` of a tenant,
-- or a `gap` of tenants without tickets. The caller passes hints back as p_known, grouped by the set of types `closed`.
CREATE OR REPLACE FUNCTION claim(
    p_worker uuid, p_backend text, p_queues text[], p_types text[], p_versions smallint[], p_sizes integer[],
    p_slots integer, p_without text[], p_from integer, p_used integer, p_oldest boolean, p_known jsonb)
RETURNS TABLE (slot integer, ticket tickets, tenant tenants, next_tenant integer, next_used integer,
               closed text, lanes lane[], gap gap, entries bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
-- The plans are made while the table is small and kept when it grows.
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    index CONSTANT regclass := 'tickets_by_tenant';  -- the server counts the entries that index scans read, dead ones included
    began CONSTANT timestamptz := clock_timestamp();
    last CONSTANT integer := 2147483647;  -- greater than every tenant's id
    names text[];  -- types that may run, as type/version; `sizes` and `capped` are parallel arrays
    sizes integer[];
    capped text[];  -- the type, if it has a cap
    known lane[];
    gaps gap[];
    since integer;  -- first id of the present search for a tenant
    candidate_id integer;
    read bigint;
    turn integer;
    kind integer;
    capacity bigint;
    idle boolean := false;  -- no ticket was claimed since the last pass over all tenants began
BEGIN
    -- A server crash may undo a claim: the worker's sessions end with the server, so no job of it runs on.
    PERFORM set_config('synchronous_commit', 'off', true);
    -- A worker without a row claims nothing; KEY SHARE blocks prune_workers, not the heartbeat.
    PERFORM FROM workers WHERE id = p_worker FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    -- 1. Types that may run. Paused types and types at their cap are `closed`.
    SELECT array_agg(k.type || '/' || k.version) FILTER (WHERE k.open), array_agg(k.size) FILTER (WHERE k.open),
           array_agg(k.capped) FILTER (WHERE k.open), coalesce(string_agg(k.type, ' ') FILTER (WHERE NOT k.open), '')
    INTO names, sizes, capped, closed
    FROM (SELECT t.*, CASE WHEN j.cap IS NOT NULL THEN j.type END AS capped,
                 j.paused_at IS NULL AND (j.cap IS NULL OR type_capacity(j.type) > 0) AS open
          FROM unnest(p_types, p_versions, p_sizes) AS t (type, version, size) LEFT JOIN job_types j ON j.type = t.type
          OFFSET 0) AS k;  -- evaluates `open` once for each type
    known := ARRAY(SELECT k FROM jsonb_populate_recordset(NULL::lane, p_known -> closed -> 'lanes') AS k);
    gaps := ARRAY(SELECT g FROM jsonb_populate_recordset(NULL::gap, p_known -> closed -> 'gaps') AS g);
    next_tenant := coalesce(p_from, (SELECT floor(random() * (max(id) + 1)) FROM tenants));
    next_used := p_used;
    slot := 1;
    entries := 0;

    WHILE slot <= p_slots AND names IS NOT NULL LOOP
        -- 2. The next tenant with a ticket. A tenant with known lanes is examined without a search of its entries.
        IF entries = 0 THEN
            since := next_tenant;
        END IF;
        read := pg_stat_get_xact_tuples_returned(index);
        SELECT coalesce((SELECT g.until FROM unnest(gaps) AS g WHERE g.since = next_tenant LIMIT 1), (
            SELECT min(s.tenant_id) FROM unnest(p_queues) AS q (queue) CROSS JOIN LATERAL (
                SELECT r.tenant_id FROM tickets r
                WHERE r.state = 'ready' AND r.backend = p_backend AND r.queue = q.queue AND r.tenant_id >= next_tenant
                  AND r.tenant_id < k.first_known AND (r.type || '/' || r.version) = ANY (names)
                ORDER BY r.tenant_id LIMIT 1) AS s), k.first_known)
        INTO candidate_id
        FROM (SELECT coalesce(min(k.tenant_id), last) AS first_known FROM unnest(known) AS k WHERE k.tenant_id >= next_tenant) AS k;
        entries := entries + pg_stat_get_xact_tuples_returned(index) - read;
        turn := CASE WHEN candidate_id = next_tenant THEN next_used ELSE 0 END + 1;
        next_tenant := candidate_id + (candidate_id < last)::integer;
        next_used := 0;
        SELECT * INTO tenant FROM tenants
        WHERE id = candidate_id AND state = 'active' AND paused_at IS NULL AND slug <> ALL (p_without);
        IF NOT FOUND AND candidate_id < last THEN
            entries := entries + 10;  -- the cost of this step, in index entries
            CONTINUE;
        END IF;
        IF entries > 100 AND candidate_id > since THEN
            gaps := (since, candidate_id)::gap || gaps;
            RETURN QUERY SELECT NULL::integer, NULL::tickets, NULL::tenants, NULL::integer, NULL::integer, closed, NULL::lane[],
                                (since, candidate_id)::gap, entries;
        END IF;
        entries := 0;
        IF candidate_id = last THEN  -- continue with the first tenant
            EXIT WHEN idle;
            idle := true;
            next_tenant := 0;
            CONTINUE;
        END IF;

        -- 3. The tenant's lanes (queue and priority), in the order of claiming. The head of an empty lane is 2 s ago, so
        -- that a transaction that commits a ticket within 2 s of its time is not overlooked.
        read := pg_stat_get_xact_tuples_returned(index);
        lanes := ARRAY(
            SELECT (candidate_id, q.queue, p.priority, coalesce(t.run_at, began - interval '2 s'), t.name, t.alone)::lane
            FROM unnest(p_queues) AS q (queue) CROSS JOIN unnest('{0,1,2}'::smallint[]) AS p (priority) LEFT JOIN LATERAL (
                SELECT r.run_at::timestamptz, r.type || '/' || r.version AS name, r.crashes > 0 AS alone FROM tickets r
                WHERE r.state = 'ready' AND r.backend = p_backend AND r.queue = q.queue AND r.tenant_id = candidate_id
                  AND r.priority = p.priority AND (r.type || '/' || r.version) = ANY (names)
                  AND r.run_at >= coalesce((SELECT k.head FROM unnest(known) AS k WHERE k.tenant_id = candidate_id
                                            AND k.queue = q.queue AND k.priority = p.priority LIMIT 1), '-infinity')
                ORDER BY r.run_at, r.job_id LIMIT 1) AS t ON true
            ORDER BY t.name IS NULL, CASE WHEN NOT p_oldest THEN p.priority END, t.run_at);
        IF pg_stat_get_xact_tuples_returned(index) - read > 100 THEN
            known := lanes || known;
            RETURN QUERY SELECT NULL::integer, NULL::tickets, NULL::tenants, NULL::integer, NULL::integer, closed, lanes,
                                NULL::gap, NULL::bigint;
        END IF;

        -- 4. One batch: the first ticket and tickets of the same type near it, within the caps of tenant and type.
        kind := array_position(names, lanes[1].name);
        CONTINUE WHEN kind IS NULL;
        capacity := CASE WHEN lanes[1].alone THEN 1 ELSE sizes[kind] END;
        IF tenant.cap IS NOT NULL THEN
            capacity := least(capacity, tenant_capacity(candidate_id));
        END IF;
        IF capped[kind] IS NOT NULL THEN
            capacity := least(capacity, type_capacity(capped[kind]));
        END IF;
        CONTINUE WHEN capacity <= 0;
        IF turn < tenant.weight THEN
            next_tenant := candidate_id;
            next_used := turn;
        END IF;
        RETURN QUERY
        WITH batch AS MATERIALIZED (
            SELECT t.ctid AS row_id FROM unnest(lanes) AS k CROSS JOIN LATERAL (
                SELECT r.ctid AS row_id FROM tickets r
                WHERE r.state = 'ready' AND r.backend = p_backend AND r.queue = k.queue AND r.tenant_id = k.tenant_id
                  AND r.priority = k.priority AND r.run_at >= k.head AND (r.crashes > 0) = lanes[1].alone
                ORDER BY r.run_at, r.job_id LIMIT 64 + 4 * sizes[kind]) AS near
            JOIN tickets t ON t.ctid = near.row_id
            WHERE k.name IS NOT NULL AND t.state = 'ready' AND t.type || '/' || t.version = lanes[1].name
            LIMIT capacity FOR UPDATE OF t SKIP LOCKED
        )
        UPDATE tickets t SET state = 'running', worker_id = p_worker, claimed_at = clock_timestamp(),
                           token = gen_random_uuid(), attempt = t.attempt + 1
        FROM batch b WHERE t.ctid = b.row_id
        RETURNING slot, t, tenant, next_tenant, next_used, NULL::text, NULL::lane[], NULL::gap, NULL::bigint;
        IF FOUND THEN
            slot := slot + 1;
            idle := false;
        ELSE  -- other workers hold the locks of all tickets
            next_tenant := candidate_id + 1;
            next_used := 0;
        END IF;
    END LOOP;
END $$;
