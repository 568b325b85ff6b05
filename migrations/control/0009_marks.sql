-- What a claim remembers of a walk over dead entries, told so that it is cheap to read: parsed once a claim where it
-- is the lane's, once a look where it is a tenant's. A tenant that has work has marks; who has none is hopped over.

DROP FUNCTION believed, past_stretches, next_stretch, remember_stretch, stretches, tenant_stretches, lane_stretches;
DROP TYPE stretch;

-- No ticket of this tenant and band waits before this place. How long a claim believes that while there is other
-- work, and while there is none.
CREATE TYPE mark AS (
    tenant_id integer, priority smallint, run_at timestamptz, job_id uuid, busy_until timestamptz, idle_until timestamptz
);

-- No tenant from the first one on has work, until the second one; told at the price of so many dead entries.
CREATE TYPE hop AS (opens integer, closes integer, walked bigint, busy_until timestamptz, idle_until timestamptz);

ALTER TYPE lane ADD ATTRIBUTE hops hop[], ADD ATTRIBUTE marked integer[];

CREATE FUNCTION marks_setting(p_lane lane, p_tenant integer) RETURNS text LANGUAGE sql IMMUTABLE
RETURN 'turno.marks_' || p_lane.key || '_' || p_tenant % 1024;

CREATE FUNCTION marks(p_lane lane, p_tenant integer) RETURNS mark[] LANGUAGE sql STABLE
RETURN nullif(current_setting('turno.marks_' || p_lane.key || '_' || p_tenant % 1024, true), '')::mark[];

CREATE FUNCTION hops(p_key text) RETURNS hop[] LANGUAGE sql STABLE
RETURN nullif(current_setting('turno.hops_' || p_key, true), '')::hop[];

-- The tenants that have marks, in order.
CREATE FUNCTION marked(p_key text) RETURNS integer[] LANGUAGE sql STABLE
RETURN nullif(current_setting('turno.marked_' || p_key, true), '')::integer[];

-- A walk grows together with the one that it continues, but not older: the whole is walked anew in time.
CREATE FUNCTION remember_mark(
    p_lane lane, p_from spot, p_mark spot, p_busy interval, p_idle interval) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now timestamptz := clock_timestamp();
    fresh mark := (p_mark.tenant_id, p_mark.priority, p_mark.run_at, p_mark.job_id, now + p_busy, now + p_idle);
    known mark[] := marks(p_lane, p_mark.tenant_id);
    listed integer[] := marked(p_lane.key);
    before mark;
BEGIN
    SELECT * INTO before FROM unnest(known) AS k
    WHERE k.tenant_id = p_mark.tenant_id AND k.priority = p_mark.priority AND k.busy_until > now
      AND p_from > spot_of(p_mark.tenant_id, p_mark.priority);
    IF FOUND THEN
        fresh.busy_until := least(before.busy_until, fresh.busy_until);
        fresh.idle_until := least(before.idle_until, fresh.idle_until);
    END IF;
    PERFORM set_config(marks_setting(p_lane, p_mark.tenant_id), (
        SELECT array_agg(k::mark)::text
        FROM (SELECT fresh.* UNION ALL
              SELECT k.* FROM unnest(known) AS k
              WHERE k.busy_until > now AND (k.tenant_id, k.priority) <> (p_mark.tenant_id, p_mark.priority)) AS k), false);
    IF p_mark.tenant_id = ANY (listed) IS NOT TRUE THEN
        PERFORM set_config('turno.marked_' || p_lane.key,
                           (SELECT array_agg(t ORDER BY t)::text FROM unnest(listed || p_mark.tenant_id) AS t), false);
    END IF;
END $$;

-- A tenant without work keeps no marks: it is hopped over like others.
CREATE FUNCTION unmark(p_lane lane, p_tenant integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config(marks_setting(p_lane, p_tenant), (
                SELECT coalesce(array_agg(k::mark)::text, '') FROM unnest(marks(p_lane, p_tenant)) AS k
                WHERE k.tenant_id <> p_tenant), false),
            set_config('turno.marked_' || p_lane.key,
                       coalesce(nullif(array_remove(marked(p_lane.key), p_tenant), '{}')::text, ''), false);
END $$;

CREATE FUNCTION remember_hop(p_lane lane, p_hop hop) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now timestamptz := clock_timestamp();
    fresh hop := p_hop;
    before hop;
BEGIN
    SELECT * INTO before FROM unnest(hops(p_lane.key)) AS k WHERE k.closes = p_hop.opens AND k.busy_until > now LIMIT 1;
    IF FOUND THEN
        fresh := (before.opens, p_hop.closes, before.walked + p_hop.walked,
                  least(before.busy_until, p_hop.busy_until), least(before.idle_until, p_hop.idle_until));
    END IF;
    PERFORM set_config('turno.hops_' || p_lane.key, (
        SELECT array_agg(k::hop)::text
        FROM (SELECT fresh.* UNION ALL
              SELECT k.* FROM unnest(hops(p_lane.key)) AS k
              WHERE k.busy_until > now AND NOT (k.opens >= fresh.opens AND k.closes <= fresh.closes)
              ORDER BY walked DESC LIMIT 16) AS k), false);
END $$;

-- Learn from a walk that went over many. Where it found a ticket, its tenant is marked, band by band: a band that has a
-- ticket is believed for longer, as another one there can only come after it; a band without one up to now, so that
-- what is enqueued later is not hidden. What lies before that tenant hides tickets of those who have nothing to do
-- with it: that is believed for as long as makes walking take a twentieth of the time, and covers no new tenant.
CREATE OR REPLACE FUNCTION learn(p_lane lane, p_from spot, p_edge spot, p_walk walk) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    head spot := p_walk.head;
    opens spot := p_from;
    hop walk := p_walk;
    idle interval := least(3 * p_walk.took, '5 s');
BEGIN
    IF head.tenant_id IS DISTINCT FROM p_from.tenant_id AND p_from = spot_of(p_from.tenant_id) THEN
        IF head.tenant_id IS NOT NULL THEN
            opens := spot_of(head.tenant_id);
            hop := walk(p_lane, p_from, opens);
        END IF;
        IF hop.walked > 100 THEN
            PERFORM remember_hop(p_lane, (
                p_from.tenant_id, coalesce(head.tenant_id, least(p_edge.tenant_id, (SELECT max(id) + 1 FROM tenants))),
                hop.walked, clock_timestamp() + least(20 * hop.took, '5 s'),
                clock_timestamp() + least(3 * hop.took, '5 s'))::hop);
        END IF;
        IF p_walk.walked - hop.walked <= 100 THEN
            RETURN;
        END IF;
    END IF;
    IF head.tenant_id = opens.tenant_id THEN
        FOR band IN opens.priority .. head.priority - 1 LOOP
            PERFORM remember_mark(
                p_lane, p_from, greatest(opens, spot_of(head.tenant_id, band, clock_timestamp() - p_walk.took)), '5 s', idle);
        END LOOP;
        PERFORM remember_mark(p_lane, p_from, head, '20 s', idle);
    END IF;
END $$;

-- Where a walk may begin instead of here, as tenants without work are hopped over, and where it meets the next hop.
CREATE FUNCTION past_hops(p_hops hop[], p_tenant integer, p_idle boolean) RETURNS hop LANGUAGE plpgsql AS $$
DECLARE
    now timestamptz := clock_timestamp();
    known hop;
    here integer := p_tenant;
    edge integer;
BEGIN
    LOOP
        edge := 2147483647;
        FOREACH known IN ARRAY p_hops LOOP
            CONTINUE WHEN known.closes <= here
                       OR now >= CASE WHEN p_idle THEN known.idle_until ELSE known.busy_until END;
            IF known.opens <= here THEN
                here := known.closes;
                edge := NULL;
            ELSE
                edge := least(edge, known.opens);
            END IF;
        END LOOP;
        IF edge IS NOT NULL THEN
            RETURN (here, edge, 0, NULL, NULL)::hop;
        END IF;
    END LOOP;
END $$;

-- The first waiting ticket of a lane at a spot or after it; null at the lane's end. A walk that begins within a tenant,
-- or at one with marks, ends with it.
CREATE OR REPLACE FUNCTION seek(p_lane lane, p_from spot, p_idle boolean DEFAULT false) RETURNS spot LANGUAGE plpgsql AS $$
DECLARE
    here spot := p_from;
    edge spot;
    hop hop;
    known mark[];
    mark mark;
    place integer;
    listed boolean := false;
    look walk;
BEGIN
    LOOP
        edge := spot_of(2147483647);
        IF here <> spot_of(here.tenant_id) THEN
            edge := spot_of(here.tenant_id + 1);
        ELSIF p_lane.hops IS NOT NULL THEN
            hop := past_hops(p_lane.hops, here.tenant_id, p_idle);
            here := spot_of(hop.opens);
            edge := spot_of(hop.closes);
        END IF;
        IF p_lane.marked IS NOT NULL THEN
            place := width_bucket(here.tenant_id, p_lane.marked);
            listed := p_lane.marked[place] IS NOT DISTINCT FROM here.tenant_id;
            edge := least(edge, spot_of(CASE WHEN listed THEN here.tenant_id + 1 ELSE p_lane.marked[place + 1] END));
        END IF;
        known := marks(p_lane, here.tenant_id);
        IF known IS NOT NULL THEN
            FOREACH mark IN ARRAY known LOOP
                CONTINUE WHEN mark.tenant_id <> here.tenant_id OR mark.priority < here.priority
                           OR clock_timestamp() >= CASE WHEN p_idle THEN mark.idle_until ELSE mark.busy_until END;
                IF mark.priority = here.priority THEN
                    here := greatest(here, (mark.tenant_id, mark.priority, mark.run_at, mark.job_id)::spot);
                    edge := least(edge, spot_of(here.tenant_id + 1));
                ELSE
                    edge := least(edge, spot_of(mark.tenant_id, mark.priority));
                END IF;
            END LOOP;
        END IF;
        look := walk(p_lane, here, edge);
        IF look.walked > 100 THEN
            PERFORM learn(p_lane, here, edge, look);
        END IF;
        IF (look.head).job_id IS NOT NULL THEN
            RETURN look.head;
        END IF;
        IF listed AND edge.tenant_id > here.tenant_id AND p_from <= spot_of(here.tenant_id) THEN
            PERFORM unmark(p_lane, here.tenant_id);
        END IF;
        IF edge.tenant_id = 2147483647 THEN
            RETURN NULL;
        END IF;
        here := edge;
    END LOOP;
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
        UPDATE tickets t SET state = 'ready' FROM due WHERE t.job_id = due.job_id RETURNING t.run_at, t.job_id
    )
    SELECT array_agg((0, 0, run_at, job_id)::spot ORDER BY run_at, job_id) INTO promoted FROM ready;
    walked := pg_stat_get_xact_tuples_returned('tickets_due'::regclass) - walked;
    IF walked > p_limit + 100 THEN
        PERFORM remember_mark(waiting, here, coalesce(promoted[1], spot_of(0, 0, since)),
                              least(greatest(20 * (clock_timestamp() - since), '1 s'), '5 s'), '0 s');
    END IF;
    RETURN coalesce(cardinality(promoted), 0);
END $$;

-- Take up to p_slots tickets: tenant after tenant, each for as many as its weight; of the tenant the best band,
-- oldest first, but one claim in eight takes its oldest of all bands, so that nothing starves. Each lane's head is
-- its next waiting ticket; the first tenant's among the heads is taken.
CREATE OR REPLACE FUNCTION claim(
    p_worker uuid, p_queues text[], p_types text[], p_versions smallint[], p_backend text, p_slots integer)
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
            turn := begin_turn(head.tenant_id, CASE WHEN turn.tenant_id = head.tenant_id THEN turn.used ELSE 0 END);
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
