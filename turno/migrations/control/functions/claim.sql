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

-- A buried worker claims nothing; KEY SHARE stops the burial, not the heartbeat.
CREATE OR REPLACE FUNCTION worker_hold(p_worker uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM workers WHERE id = p_worker FOR KEY SHARE;
    RETURN FOUND;
END $$;

-- The lanes of what a worker knows, without the paused types.
CREATE OR REPLACE FUNCTION lanes_of(p_backend text, p_queues text[], p_types text[], p_versions smallint[]) RETURNS lane[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT array_agg((p_backend, queue, known.type, known.version, key, j.cap IS NOT NULL, false,
                          hops(key), marked(key))::lane)
        FROM unnest(p_queues) AS queue, unnest(p_types, p_versions) AS known (type, version)
        CROSS JOIN LATERAL to_hex(hashtextextended(concat_ws('/', p_backend, queue, known.version, known.type), 0)) AS key
        LEFT JOIN job_types j ON j.type = known.type
        WHERE j.paused_at IS NULL);
END $$;

-- The first waiting ticket of each open lane at a spot or after it.
CREATE OR REPLACE FUNCTION seek_all(p_lanes lane[], p_from spot, p_idle boolean) RETURNS spot[] LANGUAGE plpgsql AS $$
DECLARE
    heads spot[];
BEGIN
    FOR i IN 1 .. cardinality(p_lanes) LOOP
        heads[i] := CASE WHEN NOT p_lanes[i].closed THEN seek(p_lanes[i], p_from, p_idle) END;
    END LOOP;
    RETURN heads;
END $$;

-- Which lane is next: the first tenant, its best band, the oldest in it.
CREATE OR REPLACE FUNCTION next_lane(p_heads spot[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    best integer;
BEGIN
    FOR i IN 1 .. cardinality(p_heads) LOOP
        IF p_heads[i].tenant_id IS NOT NULL AND (best IS NULL OR p_heads[i] < p_heads[best]) THEN
            best := i;
        END IF;
    END LOOP;
    RETURN best;
END $$;

-- The oldest ticket of a tenant over all bands and lanes.
CREATE OR REPLACE FUNCTION oldest(p_lanes lane[], p_heads spot[], p_tenant integer) RETURNS pick LANGUAGE plpgsql AS $$
DECLARE
    found pick;
    other spot;
BEGIN
    FOR i IN 1 .. cardinality(p_lanes) LOOP
        CONTINUE WHEN p_heads[i].tenant_id IS DISTINCT FROM p_tenant;
        FOR band IN p_heads[i].priority .. 2 LOOP
            other := CASE WHEN band = p_heads[i].priority THEN p_heads[i]
                          ELSE seek(p_lanes[i], spot_of(p_tenant, band)) END;
            IF other.tenant_id = p_tenant AND other.priority = band
               AND (found IS NULL OR (other.run_at, other.job_id) < ((found.spot).run_at, (found.spot).job_id)) THEN
                found := (i, other);
            END IF;
        END LOOP;
    END LOOP;
    RETURN found;
END $$;

-- Take the ticket at a spot, or where others are just taking it the next one of the same tenant and band.
CREATE OR REPLACE FUNCTION take(p_worker uuid, p_lane lane, p_at spot) RETURNS tickets LANGUAGE plpgsql AS $$
DECLARE
    taken tickets;
BEGIN
    UPDATE tickets t
    SET state = 'running', worker_id = p_worker, token = gen_random_uuid(), attempt = t.attempt + 1
    WHERE t.job_id = (SELECT r.job_id FROM tickets r
                      WHERE r.state = 'ready' AND r.backend = p_lane.backend AND r.queue = p_lane.queue
                        AND r.type = p_lane.type AND r.version = p_lane.version
                        AND r.tenant_id = p_at.tenant_id AND r.priority = p_at.priority
                        AND (r.run_at, r.job_id) >= (p_at.run_at, p_at.job_id)
                      ORDER BY r.run_at, r.job_id LIMIT 1
                      FOR UPDATE SKIP LOCKED)
    RETURNING t.* INTO taken;
    RETURN taken;
END $$;

-- Begin a tenant's turn, of which so much was used before; that of one that is paused, or left out, is over at once.
CREATE OR REPLACE FUNCTION begin_turn(p_tenant integer, p_used integer, p_without text[]) RETURNS turn LANGUAGE plpgsql AS $$
DECLARE
    tenant tenants;
    allowed bigint := 0;
BEGIN
    SELECT * INTO tenant FROM tenants
    WHERE id = p_tenant AND state = 'active' AND paused_at IS NULL AND slug <> ALL (p_without);
    IF tenant.cap IS NOT NULL THEN
        allowed := least(tenant.weight, p_used + tenant_room(p_tenant));
    ELSIF FOUND THEN
        allowed := tenant.weight;
    END IF;
    RETURN (p_tenant, tenant.slug, tenant.schema, tenant.handler_role, tenant.login_epoch,
            tenant.weight, p_used, allowed)::turn;
END $$;

-- A session's turns go on where its last claim ended, or tenants after a gap in the numbers would be
-- found more often than others. The first begins anywhere, so that sessions do not go in step.
CREATE OR REPLACE FUNCTION resume_turn(OUT tenant_id integer, OUT used integer) LANGUAGE plpgsql AS $$
BEGIN
    tenant_id := split_part(nullif(current_setting('turno.next_turn', true), ''), '/', 1);
    used := split_part(nullif(current_setting('turno.next_turn', true), ''), '/', 2);
    IF tenant_id IS NULL THEN
        SELECT floor(random() * (coalesce(max(id), 0) + 1)), 0 INTO tenant_id, used FROM tenants;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION remember_turn(p_turn turn) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_turn.used < p_turn.weight THEN
        PERFORM set_config('turno.next_turn', p_turn.tenant_id || '/' || p_turn.used, false);
    ELSE
        PERFORM set_config('turno.next_turn', p_turn.tenant_id + 1 || '/0', false);
    END IF;
END $$;

-- The heads when a tenant's turn is over.
CREATE OR REPLACE FUNCTION pass_tenant(p_lanes lane[], p_heads spot[], p_tenant integer, p_idle boolean) RETURNS spot[]
LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. cardinality(p_lanes) LOOP
        IF p_heads[i].tenant_id = p_tenant THEN
            p_heads[i] := seek(p_lanes[i], spot_of(p_tenant + 1), p_idle);
        END IF;
    END LOOP;
    RETURN p_heads;
END $$;

-- Take up to p_slots tickets: tenant after tenant, each for as many as its weight; of the tenant the best band,
-- oldest first, but one claim in eight takes its oldest of all bands, so that nothing starves. Each lane's head is
-- its next waiting ticket; the first tenant's among the heads is taken. Of the tenants p_without, by slug, none is.
CREATE OR REPLACE FUNCTION claim(
    p_worker uuid, p_queues text[], p_types text[], p_versions smallint[], p_backend text, p_slots integer,
    p_without text[])
RETURNS SETOF claimed
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
-- Plans are made while the table is small and kept when it is not.
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    lanes lane[] := lanes_of(p_backend, p_queues, p_types, p_versions);
    heads spot[];
    head spot;
    turn turn;
    pick pick;
    ticket tickets;
    free integer := p_slots;
    lap_is_whole boolean := false;
    lap_gave boolean := false;
    idle boolean := false;
    last integer;
BEGIN
    IF lanes IS NULL OR NOT worker_hold(p_worker) THEN
        RETURN;
    END IF;
    PERFORM promote(200);
    SELECT * INTO turn.tenant_id, turn.used FROM resume_turn();
    heads := seek_all(lanes, spot_of(turn.tenant_id), false);
    WHILE free > 0 LOOP
        pick.lane := next_lane(heads);
        IF pick.lane IS NULL THEN
            EXIT WHEN idle;
            last := turn.tenant_id;
            -- After a whole lap in vain a last one looks where there was nothing a moment ago.
            idle := lap_is_whole AND NOT lap_gave;
            lap_is_whole := true;
            lap_gave := false;
            turn := NULL;
            heads := seek_all(lanes, spot_of(0), idle);
            CONTINUE;
        END IF;
        head := heads[pick.lane];
        IF turn.allowed IS NULL OR turn.tenant_id <> head.tenant_id THEN
            turn := begin_turn(
                head.tenant_id, CASE WHEN turn.tenant_id = head.tenant_id THEN turn.used ELSE 0 END, p_without);
        END IF;
        IF turn.used >= turn.allowed THEN
            -- Nothing waits after the last tenant, as was found in this very claim.
            heads := CASE WHEN turn.tenant_id = last AND NOT idle THEN '{}'
                          ELSE pass_tenant(lanes, heads, turn.tenant_id, idle) END;
            CONTINUE;
        END IF;

        pick.spot := head;
        IF random() < 0.125 THEN
            pick := oldest(lanes, heads, turn.tenant_id);
        END IF;
        IF lanes[pick.lane].capped AND type_room(lanes[pick.lane].type) <= 0 THEN
            FOR i IN 1 .. cardinality(lanes) LOOP
                IF lanes[i].type = lanes[pick.lane].type THEN
                    lanes[i].closed := true;
                    heads[i] := NULL;
                END IF;
            END LOOP;
            CONTINUE;
        END IF;
        ticket := take(p_worker, lanes[pick.lane], pick.spot);
        IF ticket.job_id IS NOT NULL THEN
            RETURN NEXT (ticket.job_id, ticket.token, ticket.attempt, ticket.type, ticket.version,
                         turn.tenant_id, turn.slug, turn.schema, turn.handler_role, turn.login_epoch)::claimed;
            free := free - 1;
            lap_gave := true;
            turn.used := turn.used + 1;
            IF turn.used < turn.allowed AND free > 0 THEN
                heads[pick.lane] := seek(lanes[pick.lane], heads[pick.lane], idle);
            END IF;
        ELSIF pick.spot = heads[pick.lane] THEN
            -- Others are taking all there is in this band.
            heads[pick.lane] := seek(lanes[pick.lane], spot_of(turn.tenant_id, heads[pick.lane].priority + 1), idle);
        END IF;
    END LOOP;
    IF turn.allowed IS NOT NULL THEN
        PERFORM remember_turn(turn);
    END IF;
END $$;
