-- The control schema: who the tenants are, which jobs may run, who runs them.
-- Run with search_path = turno, as the installation's NOLOGIN owner. It holds no tenant data:
-- a ticket says that a job exists and may run, never what it does.
-- Roles are granted nothing here; `tenants/grants.py` is the one list of who may do what.

CREATE TABLE companies (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug        text NOT NULL UNIQUE CHECK (slug ~ '^[a-z][a-z0-9_-]{0,39}$'),
    name        text NOT NULL,
    report_role text NOT NULL UNIQUE,
    login_epoch integer NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE tenants (
    id                integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug              text NOT NULL UNIQUE CHECK (slug ~ '^[a-z][a-z0-9_-]{0,39}$'),
    company_id        integer NOT NULL REFERENCES companies,
    schema            text NOT NULL UNIQUE CHECK (schema ~ '^t_[0-9a-f]{12}$'),
    owner_role        text NOT NULL UNIQUE,
    handler_role      text NOT NULL UNIQUE,
    api_role          text NOT NULL UNIQUE,
    -- provisioning -> active -> removed; only an active tenant is found by the web or a worker.
    state             text NOT NULL DEFAULT 'provisioning' CHECK (state IN ('provisioning', 'active', 'removed')),
    weight            smallint NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 100),
    cap               smallint CHECK (cap > 0),
    paused_at         timestamptz,
    backend           text CHECK (backend IN ('exec', 'pool', 'rabbitmq')),
    -- A login's password is derived from the epoch, a token's age is held against tokens_valid_from.
    login_epoch       integer NOT NULL DEFAULT 0,
    tokens_valid_from timestamptz NOT NULL DEFAULT '-infinity',
    created_at        timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX tenants_of_company ON tenants (company_id);

CREATE TABLE settings (
    name       text PRIMARY KEY,
    value      text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- What operators decided about a job type; a type without a row runs freely.
CREATE TABLE job_types (
    type      text PRIMARY KEY,
    cap       smallint CHECK (cap > 0),
    paused_at timestamptz
);

-- A worker is alive because it says so, by the database's clock; nothing else about it is believed.
CREATE TABLE workers (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    backend    text NOT NULL CHECK (backend IN ('exec', 'pool', 'rabbitmq')),
    host       text NOT NULL,
    pid        integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    alive_at   timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- scheduled: may run at run_at.  ready: may run now.  running: a worker holds it under a token.
-- The row goes when the job ends. No foreign key to tenants: its check would lock the
-- tenant's row for every enqueue of every client.
CREATE TABLE tickets (
    job_id       uuid PRIMARY KEY,
    tenant_id    integer NOT NULL,
    queue        text NOT NULL,
    type         text NOT NULL,
    version      smallint NOT NULL,
    priority     smallint NOT NULL CHECK (priority BETWEEN 0 AND 2),
    run_at       timestamptz NOT NULL,
    state        text NOT NULL CHECK (state IN ('scheduled', 'ready', 'running')),
    backend      text NOT NULL CHECK (backend IN ('exec', 'pool', 'rabbitmq')),
    published_at timestamptz,
    worker_id    uuid,
    token        uuid,
    attempt      integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    -- Somebody wants this running job to stop: how its worker hears of it, who may not read the job.
    cancel_at    timestamptz,
    CHECK ((state = 'running') = (worker_id IS NOT NULL)),
    CHECK ((state = 'running') = (token IS NOT NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
-- Backend, queue, type and version lead: they make a lane, and what a worker cannot run is in lanes
-- that it never enters. Within a lane, the order in which a claim walks.
CREATE INDEX tickets_ready ON tickets (backend, queue, type, version, tenant_id, priority, run_at, job_id)
    WHERE state = 'ready';
CREATE INDEX tickets_due ON tickets (run_at, job_id) WHERE state = 'scheduled';
-- Few run at a time: for a cap it is read from end to end, which goes over dead entries without a look at the table.
CREATE INDEX tickets_running ON tickets (worker_id, tenant_id, type) WHERE state = 'running';

-- Which process does what only one should do at a time; over when `until` has passed.
CREATE TABLE leases (
    name   text PRIMARY KEY,
    holder text NOT NULL,
    until  timestamptz NOT NULL
);

-- What metrics and alerts read; append-only, pruned.
CREATE TABLE outcomes (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id integer NOT NULL,
    type      text NOT NULL,
    outcome   text NOT NULL,
    wait_ms   integer NOT NULL,
    run_ms    integer NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX outcomes_by_time ON outcomes (at);

-- RFC 9562 version 7, for servers older than 18: the milliseconds lead, so that ids sort by time.
CREATE FUNCTION uuid_v7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN encode(
    set_bit(set_bit(
        overlay(uuid_send(gen_random_uuid())
                PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                FROM 1 FOR 6),
        52, 1), 53, 1),
    'hex')::uuid;

-- Whose owner role is this? A tenant's functions run as its owner, and row-level security
-- on tickets and outcomes asks here; the caller passes current_user, which a definer's
-- function could not see for itself.
CREATE FUNCTION tenant_of(p_owner name) RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
RETURN (SELECT id FROM tenants WHERE owner_role = p_owner);

ALTER TABLE tickets ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tickets ON tickets USING (tenant_id = (SELECT tenant_of(current_user)));

ALTER TABLE outcomes ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_outcomes ON outcomes FOR INSERT WITH CHECK (tenant_id = (SELECT tenant_of(current_user)));
-- Row-level security hides all rows from those without a policy; who may read at all is a matter of grants.
CREATE POLICY all_outcomes ON outcomes FOR SELECT USING (true);

-- What an operator sees of tickets: a view runs as its owner, whom the policies do not bind.
CREATE VIEW ticket_counts AS
SELECT tenant_id, queue, type, backend, priority, state, count(*) AS tickets, min(run_at) AS oldest
FROM tickets GROUP BY tenant_id, queue, type, backend, priority, state;

-- Does each tenant get its turn? What waits now, and the last quarter of an hour: the share of all
-- working time it got, beside the share that its weight gives it among those who wanted any.
CREATE VIEW fairness AS
WITH present AS (
    SELECT tenant_id,
           count(*) FILTER (WHERE state = 'ready') AS waiting,
           count(*) FILTER (WHERE state = 'running') AS running,
           clock_timestamp() - min(run_at) FILTER (WHERE state = 'ready') AS oldest_wait
    FROM tickets WHERE state <> 'scheduled' GROUP BY tenant_id
), recent AS (
    SELECT tenant_id, count(*) AS ended, sum(run_ms) AS run_ms,
           percentile_disc(0.5) WITHIN GROUP (ORDER BY wait_ms) AS wait_p50_ms,
           percentile_disc(0.95) WITHIN GROUP (ORDER BY wait_ms) AS wait_p95_ms
    FROM outcomes WHERE at > clock_timestamp() - interval '15 minutes' GROUP BY tenant_id
)
SELECT tenant_id, n.slug, n.weight, n.cap, n.paused_at,
       coalesce(p.waiting, 0) AS waiting, coalesce(p.running, 0) AS running, p.oldest_wait,
       coalesce(r.ended, 0) AS ended, r.wait_p50_ms, r.wait_p95_ms,
       coalesce(r.run_ms, 0)::numeric / nullif(sum(r.run_ms) OVER (), 0) AS share,
       n.weight::numeric / sum(n.weight) OVER () AS fair_share
FROM present p FULL JOIN recent r USING (tenant_id)
JOIN tenants n ON n.id = tenant_id;

-- Workers ------------------------------------------------------------------------------------

CREATE FUNCTION worker_start(p_backend text, p_host text, p_pid integer) RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    INSERT INTO workers (backend, host, pid) VALUES (p_backend, p_host, p_pid) RETURNING id;
END;

-- Returns which of this worker's jobs somebody wants stopped; NULL means that it was declared
-- dead, that others may run its jobs, and that it must stop itself.
CREATE FUNCTION worker_alive(p_worker uuid) RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE workers SET alive_at = clock_timestamp() WHERE id = p_worker;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT job_id FROM tickets
                 WHERE state = 'running' AND worker_id = p_worker AND cancel_at IS NOT NULL);
END $$;

CREATE FUNCTION worker_stop(p_worker uuid) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    DELETE FROM workers WHERE id = p_worker;
END;

-- A worker that was silent for too long is taken off the list. Its tickets then belong to
-- no worker, which is what `orphans` finds, now or after a crash of the caller.
CREATE FUNCTION bury_workers(p_silent_for interval, p_dry_run boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    buried bigint;
BEGIN
    IF p_dry_run THEN
        SELECT count(*) INTO buried FROM workers WHERE alive_at < clock_timestamp() - p_silent_for;
        RETURN buried;
    END IF;
    DELETE FROM workers WHERE alive_at < clock_timestamp() - p_silent_for;
    GET DIAGNOSTICS buried = ROW_COUNT;
    RETURN buried;
END $$;

-- Running tickets of workers that are gone: each is to be ended by its tenant's job_rescue.
-- A dry run passes the silence that would count as death, a real one has buried already.
CREATE FUNCTION orphans(p_silent_for interval DEFAULT NULL)
RETURNS TABLE (job_id uuid, token uuid, type text, attempt integer, schema text, slug text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT t.job_id, t.token, t.type, t.attempt, n.schema, n.slug
    FROM tickets t
    JOIN tenants n ON n.id = t.tenant_id
    WHERE t.state = 'running'
      AND NOT EXISTS (SELECT FROM workers w WHERE w.id = t.worker_id
                      AND (p_silent_for IS NULL OR w.alive_at >= clock_timestamp() - p_silent_for))
    ORDER BY t.job_id
    LIMIT 1000;
END;

-- True for one caller at a time: the lease was free or over, and is now the caller's. Never given
-- back early, so that the period of what it guards is the same however many processes ask.
CREATE FUNCTION lease_take(p_name text, p_holder text, p_for interval) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO leases (name, holder, until) VALUES (p_name, p_holder, clock_timestamp() + p_for)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE leases.until <= clock_timestamp();
    RETURN FOUND;
END $$;

-- Claiming -----------------------------------------------------------------------------------
-- Functions that only others here call are no definers and pin no path: they run within one that does.

CREATE TYPE claimed AS (
    job_id uuid, token uuid, attempt integer, type text, version smallint,
    tenant_id integer, slug text, schema text, handler_role text, login_epoch integer
);

-- Ready tickets that the same workers can run, of all tenants. The key names it in settings.
CREATE TYPE lane AS (backend text, queue text, type text, version smallint, key text, capped boolean, closed boolean);

-- A ticket's place in its lane; or any place, to walk on from.
CREATE TYPE spot AS (tenant_id integer, priority smallint, run_at timestamptz, job_id uuid);

-- A ticket chosen to be taken: in which of a claim's lanes, and where there.
CREATE TYPE pick AS (lane integer, spot spot);

-- What was found to hold no ticket that can be taken, at the price of walking over so many dead ones; how long
-- a claim believes that while there is other work, and while there is none.
CREATE TYPE stretch AS (opens spot, closes spot, walked bigint, busy_until timestamptz, idle_until timestamptz);

-- What one look into the index found, over how many entries it went, and how long that took.
CREATE TYPE walk AS (head spot, walked bigint, took interval);

-- A tenant's turn goes on while it used less than it is allowed.
CREATE TYPE turn AS (
    tenant_id integer, slug text, schema text, handler_role text, login_epoch integer,
    weight smallint, used integer, allowed integer
);

CREATE FUNCTION spot_of(p_tenant integer, p_priority integer DEFAULT 0, p_run_at timestamptz DEFAULT '-infinity')
RETURNS spot LANGUAGE sql IMMUTABLE
RETURN (p_tenant, p_priority, p_run_at, uuid '00000000-0000-0000-0000-000000000000')::spot;

-- The first waiting ticket of a lane between two spots. The counter counts dead entries, too; with
-- track_counts off it stands still, and nothing is remembered below.
CREATE FUNCTION walk(p_lane lane, p_from spot, p_edge spot) RETURNS walk LANGUAGE plpgsql AS $$
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

-- Barren stretches. While anybody's transaction is open, no vacuum removes what was finished since, and
-- each walk steps over every dead index entry again. A walk that found many is remembered by its session,
-- for a moment only: a ticket may appear in the stretch, by a commit that was late or from another tenant.

-- One setting for some of a lane's tenants each, one for hops from tenant to tenant: few, and short to read.
CREATE FUNCTION tenant_stretches(p_lane lane, p_tenant integer) RETURNS text LANGUAGE sql IMMUTABLE
RETURN 'turno.barren_' || p_lane.key || '_' || p_tenant % 256;

CREATE FUNCTION lane_stretches(p_lane lane) RETURNS text LANGUAGE sql IMMUTABLE
RETURN 'turno.barren_' || p_lane.key;

CREATE FUNCTION stretches(p_setting text) RETURNS stretch[] LANGUAGE sql STABLE
RETURN nullif(current_setting(p_setting, true), '')::stretch[];

CREATE FUNCTION believed(p_stretches stretch[], p_idle boolean) RETURNS stretch[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT array_agg(s::stretch) FROM unnest(p_stretches) AS s
            WHERE clock_timestamp() < CASE WHEN p_idle THEN s.idle_until ELSE s.busy_until END);
END $$;

-- It is believed for as long as makes walking take a twentieth of the time, or a quarter while there is nothing
-- else to do. It grows together with the one it continues, but not older: the whole is walked anew in time.
CREATE FUNCTION remember_stretch(
    p_setting text, p_opens spot, p_closes spot, p_walked bigint, p_took interval, p_least interval) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    now timestamptz := clock_timestamp();
    found stretch := (p_opens, p_closes, p_walked,
                      now + least(greatest(20 * p_took, p_least), '5 s'), now + least(3 * p_took, '5 s'));
    before stretch;
BEGIN
    SELECT * INTO before FROM unnest(stretches(p_setting)) AS s
    WHERE s.closes = p_opens AND s.busy_until > now LIMIT 1;
    IF before IS NOT NULL THEN
        found := (before.opens, p_closes, before.walked + p_walked,
                  least(before.busy_until, found.busy_until), least(before.idle_until, found.idle_until));
    END IF;
    PERFORM set_config(p_setting, (
        SELECT array_agg(s::stretch)::text
        FROM (SELECT found.* UNION ALL
              SELECT k.* FROM unnest(stretches(p_setting)) AS k
              WHERE k.busy_until > now AND NOT (k.opens >= found.opens AND k.closes <= p_closes)
              ORDER BY walked DESC LIMIT 16) AS s), false);
END $$;

-- Learn from a walk. Within a tenant it is put down band by band, and of a band without a ticket only up to now: what
-- is enqueued later is not hidden by it, so it may be believed for long. Across tenants it hides tickets of those
-- who have nothing to do with it: so that part is told from the tenant's that was found, and covers no new tenant.
CREATE FUNCTION learn(p_lane lane, p_from spot, p_edge spot, p_walk walk) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    stop spot := CASE WHEN (p_walk.head).job_id IS NULL
                      THEN least(p_edge, spot_of((SELECT max(id) + 1 FROM tenants))) ELSE p_walk.head END;
    opens spot := p_from;
    setting text := tenant_stretches(p_lane, stop.tenant_id);
    own bigint := p_walk.walked;
    hop walk;
BEGIN
    IF stop.tenant_id <> p_from.tenant_id THEN
        opens := spot_of(stop.tenant_id);
        setting := lane_stretches(p_lane);
        hop := walk(p_lane, p_from, opens);
        own := own - hop.walked;
        IF hop.walked > 100 THEN
            PERFORM remember_stretch(setting, p_from, opens, hop.walked, hop.took, '0 s');
        END IF;
    END IF;
    IF own > 100 THEN
        FOR band IN opens.priority .. stop.priority LOOP
            PERFORM remember_stretch(
                setting, greatest(opens, spot_of(stop.tenant_id, band)),
                CASE WHEN band = stop.priority THEN stop
                     ELSE spot_of(stop.tenant_id, band, clock_timestamp() - p_walk.took) END,
                own, p_walk.took, '5 s');
        END LOOP;
    END IF;
END $$;

-- Where a walk may begin instead of here.
CREATE FUNCTION past_stretches(p_known stretch[], p_here spot) RETURNS spot LANGUAGE plpgsql AS $$
DECLARE
    here spot := p_here;
    closes spot;
BEGIN
    LOOP
        closes := (SELECT s.closes FROM unnest(p_known) AS s WHERE s.opens <= here AND here < s.closes LIMIT 1);
        IF closes IS NULL THEN
            RETURN here;
        END IF;
        here := closes;
    END LOOP;
END $$;

-- Where a walk from here meets the next stretch that is known.
CREATE FUNCTION next_stretch(p_known stretch[], p_here spot) RETURNS spot LANGUAGE sql STABLE
RETURN (SELECT s.opens FROM unnest(p_known) AS s WHERE s.opens > p_here ORDER BY s.opens LIMIT 1);

-- The first waiting ticket of a lane at a spot or after it; null at the lane's end.
CREATE FUNCTION seek(p_lane lane, p_from spot, p_idle boolean DEFAULT false) RETURNS spot LANGUAGE plpgsql AS $$
DECLARE
    -- Null on a healthy system.
    known stretch[] := stretches(tenant_stretches(p_lane, p_from.tenant_id)) || stretches(lane_stretches(p_lane));
    here spot := p_from;
    edge spot := spot_of(2147483647);
    look walk;
BEGIN
    IF known IS NOT NULL THEN
        known := believed(known, p_idle);
    END IF;
    LOOP
        IF known IS NOT NULL THEN
            here := past_stretches(known, here);
            edge := coalesce(next_stretch(known, here), spot_of(2147483647));
        END IF;
        look := walk(p_lane, here, edge);
        IF look.walked > 100 THEN
            PERFORM learn(p_lane, here, edge, look);
        END IF;
        IF (look.head).job_id IS NOT NULL OR edge.tenant_id = 2147483647 THEN
            RETURN look.head;
        END IF;
        here := edge;
    END LOOP;
END $$;

-- Due tickets become ready, the oldest first; bounded, so that a claim never pays for a night's worth at once.
-- What was promoted leaves dead entries as well, so those that wait for their time are a lane, too.
CREATE FUNCTION promote(p_limit integer, p_dry_run boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    waiting lane := ('', '', '', 0, 'due', false, false);
    setting text := tenant_stretches(waiting, 0);
    here spot := past_stretches(believed(stretches(setting), false), spot_of(0));
    since timestamptz := clock_timestamp();
    walked bigint := pg_stat_get_xact_tuples_returned('tickets_due'::regclass);
    promoted spot[];
BEGIN
    IF p_dry_run THEN
        RETURN (SELECT count(*) FROM tickets t WHERE t.state = 'scheduled' AND t.run_at <= since);
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
        PERFORM remember_stretch(setting, here, coalesce(promoted[1], spot_of(0, 0, since)), walked,
                                 clock_timestamp() - since, '1 s');
    END IF;
    RETURN coalesce(cardinality(promoted), 0);
END $$;

-- How many more of a capped tenant's jobs may run. Its row stays locked until our claims are committed, so
-- that nobody counts without them; whoever finds it locked leaves the tenant to the one at work.
CREATE FUNCTION tenant_room(p_tenant integer) RETURNS bigint LANGUAGE plpgsql AS $$
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
CREATE FUNCTION type_room(p_type text) RETURNS bigint LANGUAGE plpgsql AS $$
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
CREATE FUNCTION worker_hold(p_worker uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM workers WHERE id = p_worker FOR KEY SHARE;
    RETURN FOUND;
END $$;

-- Take one named ticket if it may run now. Whatever backend it is stamped with: a hint that
-- arrives by another road is as good, and the ticket can be taken once.
CREATE FUNCTION claim_job(p_worker uuid, p_job uuid, p_types text[], p_versions smallint[]) RETURNS SETOF claimed
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    named tickets;
BEGIN
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

-- The lanes of what a worker knows, without the paused types.
CREATE FUNCTION lanes_of(p_backend text, p_queues text[], p_types text[], p_versions smallint[]) RETURNS lane[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT array_agg((p_backend, queue, known.type, known.version,
                          to_hex(hashtextextended(concat_ws('/', p_backend, queue, known.version, known.type), 0)),
                          j.cap IS NOT NULL, false)::lane)
        FROM unnest(p_queues) AS queue, unnest(p_types, p_versions) AS known (type, version)
        LEFT JOIN job_types j ON j.type = known.type
        WHERE j.paused_at IS NULL);
END $$;

-- The first waiting ticket of each open lane at a spot or after it.
CREATE FUNCTION seek_all(p_lanes lane[], p_from spot, p_idle boolean) RETURNS spot[] LANGUAGE plpgsql AS $$
DECLARE
    heads spot[];
BEGIN
    FOR i IN 1 .. cardinality(p_lanes) LOOP
        heads[i] := CASE WHEN NOT p_lanes[i].closed THEN seek(p_lanes[i], p_from, p_idle) END;
    END LOOP;
    RETURN heads;
END $$;

-- Which lane is next: the first tenant, its best band, the oldest in it.
CREATE FUNCTION next_lane(p_heads spot[]) RETURNS integer LANGUAGE plpgsql AS $$
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
CREATE FUNCTION oldest(p_lanes lane[], p_heads spot[], p_tenant integer) RETURNS pick LANGUAGE plpgsql AS $$
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
CREATE FUNCTION take(p_worker uuid, p_lane lane, p_at spot) RETURNS tickets LANGUAGE plpgsql AS $$
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

-- Begin a tenant's turn, of which so much was used before; a paused tenant's is over at once.
CREATE FUNCTION begin_turn(p_tenant integer, p_used integer) RETURNS turn LANGUAGE plpgsql AS $$
DECLARE
    tenant tenants;
    allowed bigint := 0;
BEGIN
    SELECT * INTO tenant FROM tenants WHERE id = p_tenant AND state = 'active' AND paused_at IS NULL;
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
CREATE FUNCTION resume_turn(OUT tenant_id integer, OUT used integer) LANGUAGE plpgsql AS $$
BEGIN
    tenant_id := split_part(nullif(current_setting('turno.next_turn', true), ''), '/', 1);
    used := split_part(nullif(current_setting('turno.next_turn', true), ''), '/', 2);
    IF tenant_id IS NULL THEN
        SELECT floor(random() * (coalesce(max(id), 0) + 1)), 0 INTO tenant_id, used FROM tenants;
    END IF;
END $$;

CREATE FUNCTION remember_turn(p_turn turn) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_turn.used < p_turn.weight THEN
        PERFORM set_config('turno.next_turn', p_turn.tenant_id || '/' || p_turn.used, false);
    ELSE
        PERFORM set_config('turno.next_turn', p_turn.tenant_id + 1 || '/0', false);
    END IF;
END $$;

-- The heads when a tenant's turn is over.
CREATE FUNCTION pass_tenant(p_lanes lane[], p_heads spot[], p_tenant integer, p_idle boolean) RETURNS spot[]
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
-- its next waiting ticket; the first tenant's among the heads is taken.
CREATE FUNCTION claim(
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
            heads := pass_tenant(lanes, heads, turn.tenant_id, idle);
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

-- What a worker holds by these records. More than it knows of is a claim whose answer was lost.
CREATE FUNCTION held(p_worker uuid) RETURNS SETOF claimed
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT t.job_id, t.token, t.attempt, t.type, t.version, n.id, n.slug, n.schema, n.handler_role, n.login_epoch
    FROM tickets t JOIN tenants n ON n.id = t.tenant_id
    WHERE t.state = 'running' AND t.worker_id = p_worker;
END;

-- What waits for a backend that nobody serves any more is stamped over to one that is served.
CREATE FUNCTION restamp(p_backend text, p_waiting_for interval, p_dry_run boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    stamped bigint;
BEGIN
    IF p_dry_run THEN
        SELECT count(*) INTO stamped FROM tickets
        WHERE state = 'ready' AND backend <> p_backend AND run_at <= clock_timestamp() - p_waiting_for;
        RETURN stamped;
    END IF;
    UPDATE tickets SET backend = p_backend, published_at = NULL
    WHERE job_id IN (SELECT t.job_id FROM tickets t
                     WHERE t.state = 'ready' AND t.backend <> p_backend
                       AND t.run_at <= clock_timestamp() - p_waiting_for
                     LIMIT 1000 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS stamped = ROW_COUNT;
    RETURN stamped;
END $$;

-- Ready tickets that no worker took for a while: the hint was lost, or there was no room.
CREATE FUNCTION unclaimed(p_backend text, p_waiting_for interval, p_limit integer)
RETURNS TABLE (job_id uuid, slug text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT t.job_id, n.slug
    FROM tickets t
    JOIN tenants n ON n.id = t.tenant_id AND n.state = 'active' AND n.paused_at IS NULL
    WHERE t.state = 'ready' AND t.backend = p_backend AND t.run_at <= clock_timestamp() - p_waiting_for
    ORDER BY t.run_at LIMIT p_limit;
END;

-- Tenants as a worker's passes need them.
CREATE FUNCTION active_tenants() RETURNS TABLE (slug text, schema text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT slug, schema FROM tenants WHERE state = 'active' ORDER BY id;
END;

CREATE FUNCTION prune_outcomes(p_older_than interval, p_dry_run boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    pruned bigint;
BEGIN
    IF p_dry_run THEN
        SELECT count(*) INTO pruned FROM outcomes WHERE at < clock_timestamp() - p_older_than;
        RETURN pruned;
    END IF;
    DELETE FROM outcomes WHERE at < clock_timestamp() - p_older_than;
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END $$;
