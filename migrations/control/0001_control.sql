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
-- The queue leads, so that types nobody here runs never lie in the way of a claim.
CREATE INDEX tickets_ready ON tickets (queue, tenant_id, priority, run_at, job_id) WHERE state = 'ready';
CREATE INDEX tickets_due ON tickets (run_at) WHERE state = 'scheduled';
CREATE INDEX tickets_running ON tickets (worker_id) WHERE state = 'running';

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

CREATE TYPE claimed AS (
    job_id uuid, token uuid, attempt integer, type text, version smallint,
    tenant_id integer, slug text, schema text, handler_role text, login_epoch integer
);

-- Bounded, so that a claim never pays for a night's worth of due jobs at once.
CREATE FUNCTION promote(p_limit integer, p_dry_run boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    promoted bigint;
BEGIN
    IF p_dry_run THEN
        SELECT count(*) INTO promoted FROM tickets t WHERE t.state = 'scheduled' AND t.run_at <= clock_timestamp();
        RETURN promoted;
    END IF;
    UPDATE tickets SET state = 'ready'
    WHERE job_id IN (SELECT t.job_id FROM tickets t
                     WHERE t.state = 'scheduled' AND t.run_at <= clock_timestamp()
                     ORDER BY t.run_at LIMIT p_limit
                     FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS promoted = ROW_COUNT;
    RETURN promoted;
END $$;

-- Take one named ticket if it may run now. Whatever backend it is stamped with: a hint that
-- arrives by another road is as good, and the ticket can be taken once.
CREATE FUNCTION claim_job(p_worker uuid, p_job uuid, p_types text[]) RETURNS SETOF claimed
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    -- A buried worker claims nothing; KEY SHARE stops the burial, not the heartbeat.
    PERFORM FROM workers WHERE id = p_worker FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
        UPDATE tickets t
        SET state = 'running', worker_id = p_worker, token = gen_random_uuid(), attempt = t.attempt + 1
        FROM tenants n
        WHERE t.job_id = p_job AND t.type = ANY (p_types)
          AND (t.state = 'ready' OR t.state = 'scheduled' AND t.run_at <= clock_timestamp())
          AND n.id = t.tenant_id AND n.state = 'active' AND n.paused_at IS NULL
        RETURNING t.job_id, t.token, t.attempt, t.type, t.version,
                  n.id, n.slug, n.schema, n.handler_role, n.login_epoch;
END $$;

-- Take up to p_slots tickets, one tenant's turn after another. The walk hops along
-- (queue, tenant) from a random tenant, so that each tenant costs one index descent
-- whatever waits behind it, and within the tenant takes the best band, oldest first.
CREATE FUNCTION claim(p_worker uuid, p_queues text[], p_types text[], p_backend text, p_slots integer)
RETURNS SETOF claimed
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    in_queue text;
    last_tenant integer;
    next_tenant integer;
    start_tenant integer;
    wrapped boolean;
    taken claimed;
    found_in_lap boolean;
    free integer := p_slots;
BEGIN
    PERFORM FROM workers WHERE id = p_worker FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM promote(200);
    FOREACH in_queue IN ARRAY p_queues LOOP
        SELECT floor(random() * (coalesce(max(id), 0) + 1)) INTO start_tenant FROM tenants;
        found_in_lap := true;
        WHILE found_in_lap AND free > 0 LOOP
            found_in_lap := false;
            wrapped := false;
            last_tenant := start_tenant;
            WHILE free > 0 LOOP
                SELECT t.tenant_id INTO next_tenant FROM tickets t
                WHERE t.state = 'ready' AND t.queue = in_queue AND t.tenant_id > last_tenant
                ORDER BY t.tenant_id LIMIT 1;
                IF next_tenant IS NULL AND NOT wrapped THEN
                    wrapped := true;
                    last_tenant := 0;
                    CONTINUE;
                END IF;
                EXIT WHEN next_tenant IS NULL OR wrapped AND next_tenant > start_tenant;
                last_tenant := next_tenant;
                UPDATE tickets t
                SET state = 'running', worker_id = p_worker, token = gen_random_uuid(), attempt = t.attempt + 1
                FROM tenants n
                WHERE t.job_id = (SELECT r.job_id FROM tickets r
                                  WHERE r.state = 'ready' AND r.queue = in_queue AND r.tenant_id = next_tenant
                                    AND r.backend = p_backend AND r.type = ANY (p_types)
                                  ORDER BY r.priority, r.run_at, r.job_id LIMIT 1
                                  FOR UPDATE SKIP LOCKED)
                  AND n.id = t.tenant_id AND n.state = 'active' AND n.paused_at IS NULL
                RETURNING t.job_id, t.token, t.attempt, t.type, t.version,
                          n.id, n.slug, n.schema, n.handler_role, n.login_epoch
                INTO taken;
                IF FOUND THEN
                    found_in_lap := true;
                    free := free - 1;
                    RETURN NEXT taken;
                END IF;
            END LOOP;
        END LOOP;
    END LOOP;
END $$;

-- What a worker holds by these records. More than it knows of is a claim whose answer was lost.
CREATE FUNCTION held(p_worker uuid) RETURNS SETOF claimed
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT t.job_id, t.token, t.attempt, t.type, t.version, n.id, n.slug, n.schema, n.handler_role, n.login_epoch
    FROM tickets t JOIN tenants n ON n.id = t.tenant_id
    WHERE t.state = 'running' AND t.worker_id = p_worker;
END;

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
