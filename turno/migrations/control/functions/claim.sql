-- How many more of a capped tenant's jobs may run. Its row stays locked until our claims are committed, so
-- that nobody counts without them; whoever finds it locked leaves the tenant to the one at work.
CREATE OR REPLACE FUNCTION tenant_room(p_tenant integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    at_most bigint;
BEGIN
    SELECT cap INTO at_most FROM tenants WHERE id = p_tenant FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    RETURN at_most - (SELECT count(*) FROM tickets WHERE state = 'running' AND tenant_id = p_tenant);
END $$;

-- The same for a type, over all tenants; null where it has no cap.
CREATE OR REPLACE FUNCTION type_room(p_type text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    at_most bigint;
BEGIN
    SELECT cap INTO at_most FROM job_types WHERE type = p_type FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    RETURN at_most - (SELECT count(*) FROM tickets WHERE state = 'running' AND type = p_type);
END $$;

-- A worker that is off the list claims nothing; KEY SHARE blocks prune_workers, not the heartbeat.
CREATE OR REPLACE FUNCTION worker_hold(p_worker uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM workers WHERE id = p_worker FOR KEY SHARE;
    RETURN FOUND;
END $$;

-- Claim for up to p_slots children: tenant after tenant from p_from on and around, each its weight's share of the slots,
-- of which p_used are gone of the first one's; where fewer tenants wait than there are slots, each gets more. A slot is
-- one ticket, or of a short type as many as p_sizes says. A tenant's best band goes first, with p_oldest the band whose
-- first ticket is oldest; within a band the oldest. p_types, p_versions and p_sizes are in step, and each type is looked
-- for in every queue. Of the tenants p_without, by slug, none is claimed.
--
-- What lies in front, dead entries that an old snapshot keeps or tickets that cannot be claimed here, is walked over once:
-- rows without a ticket say what was `learned`, and the caller passes it back as p_known while it believes it. `empty` says
-- which tenant comes next after this one, over how many entries; `marks` where a tenant's queues and bands begin; both are
-- `for` the types that were `closed`, paused or at their caps. `passed` is a tenant looked at where others were taking all
-- that there was.
--
-- The walk is lazy: each CTE is read only as far as the next one asks, and in the order in which it was made. OFFSET 0 keeps
-- the planner from evaluating a LATERAL subquery once for each of its columns. A claim of one ticket costs mostly what its
-- plan's nodes cost to set up, and the columns of each: sorts, hash tables and aggregates that are not needed are left out,
-- and of a tenant its whole row goes through them as one column.
CREATE OR REPLACE FUNCTION claim(
    p_worker uuid, p_backend text, p_queues text[], p_types text[], p_versions smallint[], p_sizes integer[],
    p_slots integer, p_without text[], p_from integer, p_used integer, p_oldest boolean, p_known jsonb)
RETURNS TABLE (next_tenant integer, next_used integer, slots bigint, crashes smallint, job_id uuid, token uuid, attempt integer,
               type text, version smallint, tenant_id integer, slug text, schema text, handler_role text,
               login_epoch integer, adopted_schema text, learned jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
-- Plans are made while the table is small and kept when it is not; only nested loops keep the order of the walk.
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_memoize = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    walk CONSTANT regclass := 'tickets_by_tenant';  -- statistics count the entries that its scans read, dead ones as well
    began CONSTANT timestamptz := clock_timestamp();
    first integer := p_from;
    names text[];  -- of the types that are open, with their versions; in step with it their sizes and rooms
    sizes integer[];
    rooms bigint[];
    closed text;
    empty jsonb;
    marks jsonb;
    marked integer[] := '{}';
BEGIN
    -- A claim may be lost with the server: what would know of it are sessions, and they are lost with it.
    PERFORM set_config('synchronous_commit', 'off', true);
    IF NOT worker_hold(p_worker) THEN
        RETURN;
    END IF;
    SELECT array_agg(k.type || '/' || k.version) FILTER (WHERE k.open), array_agg(k.size) FILTER (WHERE k.open),
           array_agg(k.room) FILTER (WHERE k.open), coalesce(string_agg(k.type, ' ') FILTER (WHERE NOT k.open), '')
    INTO names, sizes, rooms, closed
    FROM (SELECT t.*, j.room, coalesce(j.room > 0, true) AS open
          FROM unnest(p_types, p_versions, p_sizes) AS t (type, version, size) CROSS JOIN LATERAL (
              SELECT (SELECT CASE WHEN j.paused_at IS NOT NULL THEN 0 WHEN j.cap IS NOT NULL THEN type_room(j.type) END
                      FROM job_types j WHERE j.type = t.type) AS room OFFSET 0) AS j) AS k;
    IF names IS NULL THEN
        RETURN;
    END IF;
    IF first IS NULL THEN
        SELECT coalesce(floor(random() * (max(id) + 1))::integer, 0) INTO first FROM tenants;
    END IF;
    empty := p_known -> closed -> 'empty';
    marks := p_known -> closed -> 'marks';
    IF marks IS NOT NULL THEN
        marked := ARRAY(SELECT k::integer FROM jsonb_object_keys(marks) AS k ORDER BY 1);
    END IF;
    RETURN QUERY
    WITH RECURSIVE lap AS (  -- the tenants that have work, in order, around once
        SELECT 0 AS place, first - 1 AS tenant_id, NULL::integer AS after, false AS wrapped, 0::bigint AS walked
        UNION ALL
        SELECT l.place + 1, coalesce(n.tenant_id, -1), l.tenant_id, l.wrapped OR n.tenant_id IS NULL,
               pg_stat_get_xact_tuples_returned(walk) - l.before
        FROM (SELECT l.*, pg_stat_get_xact_tuples_returned(walk) AS before,
                     marked[width_bucket(l.tenant_id, marked) + 1] AS stop FROM lap l OFFSET 0) AS l
        CROSS JOIN LATERAL (
            SELECT coalesce((empty ->> l.tenant_id::text)::integer, (
                SELECT min(s.tenant_id) FROM unnest(p_queues) AS q (queue) CROSS JOIN LATERAL (
                    SELECT r.tenant_id FROM tickets r
                    WHERE r.state = 'ready' AND r.backend = p_backend AND r.queue = q.queue AND r.tenant_id > l.tenant_id
                      AND r.tenant_id < coalesce(l.stop, 2147483647) AND (r.type || '/' || r.version) = ANY (names)
                    ORDER BY r.tenant_id LIMIT 1) AS s), l.stop) AS tenant_id OFFSET 0) AS n
        WHERE NOT (l.wrapped AND (n.tenant_id IS NULL OR n.tenant_id >= first))
    ), found AS MATERIALIZED (  -- the first of them that may run something, where their queues and bands begin
        SELECT l.place, n.id, n.tenant, n.weight, h.*, CASE WHEN n.id = p_from THEN p_used ELSE 0 END AS used
        FROM lap l CROSS JOIN LATERAL (
            SELECT n.id, n AS tenant, n.weight, n.cap, pg_stat_get_xact_tuples_returned(walk) AS before,
                   marks -> n.id::text AS mark FROM tenants n
            WHERE n.id = l.tenant_id AND n.state = 'active' AND n.paused_at IS NULL AND n.slug <> ALL (p_without) OFFSET 0) AS n
        CROSS JOIN LATERAL (
            SELECT array_agg(b.queue) AS queues, array_agg(b.band) AS bands, array_agg(b.head) AS heads,
                   (array_agg(b.size) FILTER (WHERE b.head IS NOT NULL))[1] AS size,
                   pg_stat_get_xact_tuples_returned(walk) - n.before AS walked,
                   CASE WHEN n.cap IS NULL THEN 2147483647 WHEN count(b.head) > 0 THEN tenant_room(n.id) END AS room
            FROM (SELECT q.queue, b.band, t.run_at::timestamptz AS head, t.size
                  FROM unnest(p_queues) AS q (queue) CROSS JOIN unnest('{0,1,2}'::smallint[]) AS b (band) LEFT JOIN LATERAL (
                      SELECT r.run_at, sizes[array_position(names, r.type || '/' || r.version)] AS size
                      FROM tickets r
                      WHERE r.state = 'ready' AND r.backend = p_backend AND r.queue = q.queue AND r.tenant_id = n.id
                        AND r.priority = b.band AND (r.type || '/' || r.version) = ANY (names)
                        AND r.run_at >= coalesce((n.mark ->> (q.queue || '/' || b.band))::timestamptz, '-infinity')
                      ORDER BY r.run_at, r.job_id LIMIT 1) AS t ON true
                  ORDER BY CASE WHEN NOT p_oldest THEN b.band END, t.run_at) AS b
            OFFSET 0) AS h
        WHERE l.place > 0 AND h.size IS NOT NULL AND h.room > 0
        LIMIT p_slots
    ), turn AS (  -- how often all have had their turns after this claim, and how far into the next lap it comes
        SELECT (p_slots + sum(f.used)) / sum(f.weight) AS laps, (p_slots + sum(f.used)) % sum(f.weight) AS rest FROM found f
    ), visit AS MATERIALIZED (
        SELECT f.*, t.laps * f.weight + greatest(0, least(f.weight, t.rest - f.before)) - f.used AS slots,
               t.rest < f.before + f.weight AND t.rest > 0 AS ends, t.rest - f.before AS ends_after
        FROM (SELECT f.*, sum(f.weight) OVER (ROWS UNBOUNDED PRECEDING) - f.weight AS before FROM found f) AS f
        CROSS JOIN turn t
    ), stop AS (  -- where the next claim goes on
        SELECT coalesce((array_agg(v.id) FILTER (WHERE v.ends))[1], (array_agg(v.id))[count(*)] + 1) AS next_tenant,
               coalesce((array_agg(v.ends_after) FILTER (WHERE v.ends))[1], 0)::integer AS next_used FROM visit v
    ), picked AS MATERIALIZED (
        SELECT row_number() OVER () AS nth, v.slots, v.tenant, g.*
        FROM visit v CROSS JOIN LATERAL (
            SELECT few.*, sum(few.cost) OVER (ROWS UNBOUNDED PRECEDING) AS spent
            FROM (SELECT one.* FROM unnest(v.queues, v.bands, v.heads) AS b (queue, band, head)
                  CROSS JOIN LATERAL (
                      SELECT r.ctid AS at, r.type, rooms[array_position(names, r.type || '/' || r.version)] AS type_room,
                             CASE WHEN r.crashes > 0 THEN 1.0::float8
                                  ELSE 1.0::float8 / sizes[array_position(names, r.type || '/' || r.version)] END AS cost
                      FROM tickets r
                      WHERE r.state = 'ready' AND r.backend = p_backend AND r.queue = b.queue AND r.tenant_id = v.id
                        AND r.priority = b.band AND r.run_at >= b.head AND (r.type || '/' || r.version) = ANY (names)
                        AND (r.crashes = 0 OR r.run_at = b.head)
                      ORDER BY r.run_at, r.job_id
                      FOR UPDATE SKIP LOCKED) AS one
                  LIMIT least(v.room, ceil(v.slots * v.size))::bigint) AS few) AS g
        WHERE v.slots > 0
    ), taken AS (
        UPDATE tickets t
        SET state = 'running', worker_id = p_worker, token = gen_random_uuid(), attempt = t.attempt + 1
        FROM picked c
        WHERE t.ctid = c.at AND c.spent <= c.slots + 0.001
          AND (c.type_room IS NULL
               OR c.type_room > (SELECT count(*) FROM picked p WHERE p.type = c.type AND p.nth < c.nth))
        RETURNING c.slots, c.tenant, t.crashes, t.job_id, t.token, t.attempt, t.type::text, t.version
    )
    SELECT s.next_tenant, s.next_used, t.slots, t.crashes, t.job_id, t.token, t.attempt, t.type, t.version, (t.tenant).id,
           (t.tenant).slug, (t.tenant).schema, (t.tenant).handler_role, (t.tenant).login_epoch, (t.tenant).adopted_schema,
           NULL::jsonb
    FROM taken t CROSS JOIN stop s
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           jsonb_build_object('for', closed, 'empty', jsonb_build_object(l.after, jsonb_build_array(
               coalesce(nullif(l.tenant_id, -1), 2147483647), l.walked)))
    FROM (SELECT * FROM lap LIMIT (SELECT CASE WHEN count(*) = p_slots THEN max(place) + 1 END FROM found)) AS l
    WHERE l.walked > 100
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           jsonb_build_object(
               'for', closed,
               'passed', CASE WHEN NOT EXISTS (SELECT FROM taken) THEN f.id END,
               'marks', CASE WHEN f.walked > 100 THEN jsonb_build_object(f.id, (
                   SELECT jsonb_object_agg(b.queue || '/' || b.band, coalesce(b.head, began - interval '2 s'))
                   FROM unnest(f.queues, f.bands, f.heads) AS b (queue, band, head))) END)
    FROM found f WHERE f.walked > 100 OR NOT EXISTS (SELECT FROM taken);
END $$;
