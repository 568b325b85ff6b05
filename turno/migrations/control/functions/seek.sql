CREATE OR REPLACE FUNCTION spot_of(p_tenant integer, p_priority integer DEFAULT 0, p_run_at timestamptz DEFAULT '-infinity')
RETURNS spot LANGUAGE sql IMMUTABLE
RETURN (p_tenant, p_priority, p_run_at, uuid '00000000-0000-0000-0000-000000000000')::spot;

-- The first waiting ticket of a lane between two spots. The counter counts dead entries, too; with
-- track_counts off it stands still, and nothing is remembered below.
CREATE OR REPLACE FUNCTION walk(p_lane lane, p_from spot, p_edge spot) RETURNS walk LANGUAGE plpgsql AS $$
DECLARE
    since timestamptz := clock_timestamp();
    before bigint := pg_stat_get_xact_tuples_returned('tickets_ready'::regclass);
    head spot;
BEGIN
    SELECT t.tenant_id, t.priority, t.run_at, t.job_id INTO head FROM tickets t
    WHERE t.state = 'ready' AND t.backend = p_lane.backend AND t.queue = p_lane.queue
      AND t.type = p_lane.type AND t.version = p_lane.version
      AND (t.tenant_id, t.priority, t.run_at, t.job_id)
          >= (p_from.tenant_id, p_from.priority, p_from.run_at, p_from.job_id)
      AND (t.tenant_id, t.priority, t.run_at, t.job_id)
          < (p_edge.tenant_id, p_edge.priority, p_edge.run_at, p_edge.job_id)
    ORDER BY t.tenant_id, t.priority, t.run_at, t.job_id LIMIT 1;
    RETURN (head, pg_stat_get_xact_tuples_returned('tickets_ready'::regclass) - before,
            clock_timestamp() - since)::walk;
END $$;

CREATE OR REPLACE FUNCTION marks_setting(p_lane lane, p_tenant integer) RETURNS text LANGUAGE sql IMMUTABLE
RETURN 'turno.marks_' || p_lane.key || '_' || p_tenant % 1024;

CREATE OR REPLACE FUNCTION marks(p_lane lane, p_tenant integer) RETURNS mark[] LANGUAGE sql STABLE
RETURN nullif(current_setting('turno.marks_' || p_lane.key || '_' || p_tenant % 1024, true), '')::mark[];

CREATE OR REPLACE FUNCTION hops(p_key text) RETURNS hop[] LANGUAGE sql STABLE
RETURN nullif(current_setting('turno.hops_' || p_key, true), '')::hop[];

-- The tenants that have marks, in order.
CREATE OR REPLACE FUNCTION marked(p_key text) RETURNS integer[] LANGUAGE sql STABLE
RETURN nullif(current_setting('turno.marked_' || p_key, true), '')::integer[];

-- A walk grows together with the one that it continues, but not older: the whole is walked anew in time.
CREATE OR REPLACE FUNCTION remember_mark(
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
CREATE OR REPLACE FUNCTION unmark(p_lane lane, p_tenant integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config(marks_setting(p_lane, p_tenant), (
                SELECT coalesce(array_agg(k::mark)::text, '') FROM unnest(marks(p_lane, p_tenant)) AS k
                WHERE k.tenant_id <> p_tenant), false),
            set_config('turno.marked_' || p_lane.key,
                       coalesce(nullif(array_remove(marked(p_lane.key), p_tenant), '{}')::text, ''), false);
END $$;

CREATE OR REPLACE FUNCTION remember_hop(p_lane lane, p_hop hop) RETURNS void LANGUAGE plpgsql AS $$
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
CREATE OR REPLACE FUNCTION past_hops(p_hops hop[], p_tenant integer, p_idle boolean) RETURNS hop LANGUAGE plpgsql AS $$
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
