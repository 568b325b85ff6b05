-- One tenant's jobs. Run with search_path = the tenant's schema, as the tenant's owner role.
-- Every function is SECURITY DEFINER of that owner: a hole in one stays in one tenant.
--
--   pending -> running -> completed | failed | cancelled
--   running -> pending      retry, reschedule, handed back, rescued
--   pending -> cancelled    cancelled or expired before it ran
--
-- Lock order everywhere: ticket, then job.
-- No foreign keys between the job and its history: their checks would cost every job, and
-- job_purge is the only thing that ever removes a job.

CREATE TABLE background_jobs (
    id                  uuid PRIMARY KEY DEFAULT turno.uuid_v7(),
    type                text NOT NULL,
    version             smallint NOT NULL,
    queue               text NOT NULL,
    priority            smallint NOT NULL CHECK (priority BETWEEN 0 AND 2),
    status              text NOT NULL DEFAULT 'pending'
                        CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled')),
    -- Why it is where it is: rescued, parked for a person, expired, cancelled by whom.
    reason              text,
    payload             jsonb NOT NULL,
    payload_hash        bytea NOT NULL,
    result              jsonb,
    error               jsonb,
    user_id             text NOT NULL,
    correlation_id      text,
    trace_context       text,
    idempotency_key     text,
    -- attempt is the ordinal of the latest run and only grows. Of those runs, errors count
    -- against max_attempts and crashes against three; a run handed back counts as neither.
    attempt             integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    errors              integer NOT NULL DEFAULT 0 CHECK (errors >= 0),
    crashes             integer NOT NULL DEFAULT 0 CHECK (crashes >= 0),
    max_attempts        integer NOT NULL CHECK (max_attempts > 0),
    run_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at          timestamptz,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at          timestamptz,
    finished_at         timestamptz,
    cancel_requested_at timestamptz,
    parent_id           uuid,
    -- The one job that a retry or a replay made of this one; set once.
    successor_id        uuid,
    revision            integer NOT NULL DEFAULT 1,
    CHECK ((status IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CHECK (status <> 'running' OR started_at IS NOT NULL AND attempt > 0),
    CHECK (result IS NULL OR status = 'completed'),
    CHECK (status <> 'failed' OR error IS NOT NULL),
    CHECK (errors + crashes <= attempt)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX background_jobs_once ON background_jobs (user_id, type, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX background_jobs_of_user ON background_jobs (user_id, id);
CREATE INDEX background_jobs_open ON background_jobs (user_id) WHERE status IN ('pending', 'running');
CREATE INDEX background_jobs_expiring ON background_jobs (expires_at) WHERE status = 'pending' AND expires_at IS NOT NULL;
CREATE INDEX background_jobs_finished ON background_jobs (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE background_job_attempts (
    job_id        uuid NOT NULL,
    attempt       integer NOT NULL,
    token         uuid NOT NULL,
    worker        text NOT NULL,
    -- The backend that works for this attempt: what a rescue must end before the job runs again.
    backend_pid   integer NOT NULL,
    -- Unknown for a company's report login, which the tenant's owner may neither see nor end: it only
    -- reads, so a rescue may leave it be.
    backend_start timestamptz,
    started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at   timestamptz,
    outcome       text CHECK (outcome IN ('completed', 'error', 'crashed', 'cancelled', 'rescheduled', 'released')),
    error         jsonb,
    PRIMARY KEY (job_id, attempt),
    CHECK ((finished_at IS NULL) = (outcome IS NULL))
);

CREATE TABLE background_job_progress (
    job_id     uuid PRIMARY KEY,
    done       integer NOT NULL DEFAULT 0 CHECK (done >= 0),
    failed     integer NOT NULL DEFAULT 0 CHECK (failed >= 0),
    total      integer NOT NULL DEFAULT 0 CHECK (total >= 0),
    message    text,
    revision   integer NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

CREATE TABLE background_job_checkpoints (
    job_id     uuid PRIMARY KEY,
    state      jsonb NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The ledger of a batch. skipped: done already by the job that this one continues.
CREATE TABLE background_job_items (
    job_id uuid NOT NULL,
    key    text NOT NULL,
    state  text NOT NULL CHECK (state IN ('done', 'failed', 'skipped')),
    ref    text,
    error  jsonb,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, key),
    CHECK ((state = 'failed') = (error IS NOT NULL))
);

-- The audit of transitions, written by a trigger so that no function can forget it.
CREATE TABLE background_job_events (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id     uuid NOT NULL,
    old_status text,
    new_status text NOT NULL,
    attempt    integer NOT NULL,
    reason     text,
    at         timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX background_job_events_of_job ON background_job_events (job_id, id);

-- A failed job with its history, kept until someone has replayed it, however old the job is.
CREATE TABLE background_jobs_dead_letter (
    job_id      uuid PRIMARY KEY,
    type        text NOT NULL,
    version     smallint NOT NULL,
    user_id     text NOT NULL,
    payload     jsonb NOT NULL,
    cause       text NOT NULL,
    error       jsonb NOT NULL,
    attempts    jsonb NOT NULL,
    died_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    replayed_at timestamptz,
    replayed_as uuid,
    CHECK ((replayed_at IS NULL) = (replayed_as IS NULL))
);

-- One per job that ended, so that its user hears of it exactly once.
CREATE TABLE notifications (
    id         uuid PRIMARY KEY DEFAULT turno.uuid_v7(),
    job_id     uuid NOT NULL UNIQUE,
    user_id    text NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('completed', 'failed', 'cancelled')),
    data       jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    read_at    timestamptz
);
CREATE INDEX notifications_of_user ON notifications (user_id, id);

CREATE FUNCTION job_revise() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    NEW.revision := OLD.revision + 1;
    RETURN NEW;
END $$;
CREATE TRIGGER revise BEFORE UPDATE ON background_jobs FOR EACH ROW EXECUTE FUNCTION job_revise();

CREATE FUNCTION job_audit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO background_job_events (job_id, old_status, new_status, attempt, reason)
    VALUES (NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.status END, NEW.status, NEW.attempt, NEW.reason);
    RETURN NULL;
END $$;
CREATE TRIGGER audit_insert AFTER INSERT ON background_jobs FOR EACH ROW EXECUTE FUNCTION job_audit();
CREATE TRIGGER audit_update AFTER UPDATE ON background_jobs FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION job_audit();

-- What the functions below share; executable by the owner alone --------------------------------

-- Hold the claim until the transaction ends, or raise: whoever lost it writes nothing.
CREATE FUNCTION claim_hold(p_job uuid, p_token uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token AND state = 'running' FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim on job % was lost; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
END $$;

-- The executor's BEGIN sets turno.attempt for its transaction only. Missing here, it says that
-- the handler ended that transaction itself, and that its writes were committed without the claim.
CREATE FUNCTION attempt_check(p_token uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF current_setting('turno.attempt', true) IS DISTINCT FROM p_token::text THEN
        RAISE EXCEPTION 'the handler ended the job''s transaction itself; leave commit and rollback to the executor'
            USING ERRCODE = 'TU002';
    END IF;
END $$;

-- Close the open attempt, or raise: a claim that was never started has nothing to end.
CREATE FUNCTION attempt_end(p_job uuid, p_outcome text, p_error jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE background_job_attempts
    SET finished_at = clock_timestamp(), outcome = p_outcome, error = p_error
    WHERE job_id = p_job AND finished_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no attempt of job % is open; start it first', p_job USING ERRCODE = 'TU001';
    END IF;
END $$;

-- The end of a job, whatever end: state, dead letter, notification, outcome, and its ticket goes.
-- The caller holds the ticket. Returns false if the job had ended already.
CREATE FUNCTION job_end(p_job uuid, p_status text, p_reason text, p_result jsonb, p_error jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    job background_jobs;
BEGIN
    UPDATE background_jobs
    SET status = p_status, reason = p_reason, result = p_result,
        error = CASE WHEN p_status <> 'completed' THEN coalesce(p_error, error) END,
        finished_at = clock_timestamp()
    WHERE id = p_job AND status IN ('pending', 'running')
    RETURNING * INTO job;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_status = 'failed' THEN
        INSERT INTO background_jobs_dead_letter (job_id, type, version, user_id, payload, cause, error, attempts)
        SELECT job.id, job.type, job.version, job.user_id, job.payload, p_reason, job.error,
               coalesce(jsonb_agg(to_jsonb(a) - 'token' - 'job_id' ORDER BY a.attempt), '[]')
        FROM background_job_attempts a WHERE a.job_id = p_job;
    END IF;
    INSERT INTO notifications (job_id, user_id, kind, data)
    SELECT job.id, job.user_id, p_status,
           jsonb_build_object('type', job.type, 'reason', p_reason, 'done', p.done, 'failed', p.failed, 'total', p.total)
    FROM (SELECT) AS one LEFT JOIN background_job_progress p ON p.job_id = p_job;
    INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms)
    VALUES (turno.tenant_of(current_user), job.type, p_status,
            -- A job cancelled unstarted waited to the end; the clock may have been set back, and int may overflow.
            least(2147483647, greatest(0, 1000 * extract(epoch FROM coalesce(job.started_at, job.finished_at) - job.created_at)))::integer,
            least(2147483647, greatest(0, 1000 * extract(epoch FROM job.finished_at - coalesce(job.started_at, job.finished_at))))::integer);
    DELETE FROM turno.tickets WHERE job_id = p_job;
    RETURN true;
END $$;

-- Back to waiting; the caller holds the ticket. A zero delay is ready at once.
CREATE FUNCTION job_requeue(p_job uuid, p_run_at timestamptz, p_reason text, p_error jsonb, p_errors integer, p_crashes integer)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE background_jobs
    SET status = 'pending', run_at = p_run_at, reason = p_reason, error = p_error,
        errors = errors + p_errors, crashes = crashes + p_crashes
    WHERE id = p_job AND status IN ('pending', 'running');
    UPDATE turno.tickets
    SET state = CASE WHEN p_run_at > clock_timestamp() THEN 'scheduled' ELSE 'ready' END,
        run_at = p_run_at, worker_id = NULL, token = NULL, published_at = NULL, cancel_at = NULL
    WHERE job_id = p_job;
END $$;

-- Enqueueing -----------------------------------------------------------------------------------

CREATE FUNCTION ticket_put(p_job uuid, p_queue text, p_type text, p_version smallint, p_priority smallint,
                           p_run_at timestamptz, p_backend text, p_attempt integer) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt)
    VALUES (p_job, turno.tenant_of(current_user), p_queue, p_type, p_version, p_priority, p_run_at,
            CASE WHEN p_run_at > clock_timestamp() THEN 'scheduled' ELSE 'ready' END, p_backend, p_attempt)
    ON CONFLICT (job_id) DO NOTHING;
END;

-- accepted: a new job.  replayed: the first job under this key, with the same body.
-- conflict: the key was used with another body.  quota: the user has enough jobs waiting.
CREATE FUNCTION job_enqueue(
    p_type text, p_version smallint, p_queue text, p_backend text, p_priority smallint, p_max_attempts integer,
    p_payload jsonb, p_payload_hash bytea, p_user text, p_run_at timestamptz, p_expires_at timestamptz,
    p_idempotency_key text, p_correlation_id text, p_trace_context text, p_parent uuid, p_pending_limit integer)
RETURNS TABLE (job_id uuid, verdict text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    due timestamptz := coalesce(p_run_at, clock_timestamp());
    first_hash bytea;
BEGIN
    IF p_pending_limit IS NOT NULL THEN
        -- One user's submissions take turns, or two at once would both see room for one.
        PERFORM pg_advisory_xact_lock(turno.tenant_of(current_user), hashtext(p_user));
        -- Jobs parked for a person do not count: their user could never free the place.
        IF (SELECT count(*) FROM (SELECT FROM background_jobs
                                  WHERE user_id = p_user AND status IN ('pending', 'running') AND run_at < 'infinity'
                                  LIMIT p_pending_limit) AS open) >= p_pending_limit THEN
            verdict := 'quota';
        END IF;
    END IF;
    LOOP
        IF verdict IS NULL THEN
            INSERT INTO background_jobs (type, version, queue, priority, payload, payload_hash, user_id, correlation_id,
                                         trace_context, idempotency_key, max_attempts, run_at, expires_at, parent_id)
            VALUES (p_type, p_version, p_queue, p_priority, p_payload, p_payload_hash, p_user, p_correlation_id,
                    p_trace_context, p_idempotency_key, p_max_attempts, due, p_expires_at, p_parent)
            ON CONFLICT (user_id, type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
            RETURNING id INTO job_id;
            IF FOUND THEN
                verdict := 'accepted';
                PERFORM ticket_put(job_id, p_queue, p_type, p_version, p_priority, due, p_backend, 0);
                EXIT;
            END IF;
        END IF;
        -- A statement of its own: its snapshot sees the winner that the insert waited for.
        SELECT id, payload_hash INTO job_id, first_hash FROM background_jobs
        WHERE user_id = p_user AND type = p_type AND idempotency_key = p_idempotency_key;
        IF FOUND THEN
            verdict := CASE WHEN first_hash = p_payload_hash THEN 'replayed' ELSE 'conflict' END;
        END IF;
        -- Neither inserted nor found: the first job was purged between the two, and the key is free again.
        EXIT WHEN verdict IS NOT NULL;
    END LOOP;
    RETURN NEXT;
END $$;

-- A new job that continues an ended one: what the old one's ledger has done is skipped. Asked
-- for twice it answers with the first one's id. With p_user only that user's job is found.
CREATE FUNCTION job_retry(p_job uuid, p_user text, p_backend text, p_correlation_id text)
RETURNS TABLE (job_id uuid, verdict text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    old background_jobs;
    due timestamptz := clock_timestamp();
BEGIN
    SELECT * INTO old FROM background_jobs j WHERE j.id = p_job AND (p_user IS NULL OR j.user_id = p_user) FOR UPDATE;
    IF NOT FOUND THEN
        verdict := 'unknown';
    ELSIF old.successor_id IS NOT NULL THEN
        job_id := old.successor_id;
        verdict := 'replayed';
    ELSIF old.status IN ('failed', 'cancelled')
          OR old.status = 'completed' AND EXISTS (SELECT FROM background_job_items i
                                                  WHERE i.job_id = p_job AND i.state = 'failed') THEN
        INSERT INTO background_jobs (type, version, queue, priority, payload, payload_hash, user_id, correlation_id,
                                     trace_context, max_attempts, run_at, parent_id)
        VALUES (old.type, old.version, old.queue, old.priority, old.payload, old.payload_hash,
                old.user_id, coalesce(p_correlation_id, old.correlation_id), old.trace_context, old.max_attempts, due, p_job)
        RETURNING id INTO job_id;
        INSERT INTO background_job_items (job_id, key, state, ref)
        SELECT job_retry.job_id, i.key, 'skipped', i.ref FROM background_job_items i
        WHERE i.job_id = p_job AND i.state IN ('done', 'skipped');
        UPDATE background_jobs SET successor_id = job_retry.job_id WHERE id = p_job;
        UPDATE background_jobs_dead_letter d SET replayed_at = clock_timestamp(), replayed_as = job_retry.job_id
        WHERE d.job_id = p_job AND d.replayed_at IS NULL;
        PERFORM ticket_put(job_id, old.queue, old.type, old.version, old.priority, due, p_backend, 0);
        verdict := 'accepted';
    ELSE
        verdict := 'not_retryable';
    END IF;
    RETURN NEXT;
END $$;

-- A waiting job ends here; a running one is asked to stop at its next look.
CREATE FUNCTION job_cancel(p_job uuid, p_user text, p_reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    job background_jobs;
BEGIN
    PERFORM FROM turno.tickets WHERE job_id = p_job FOR UPDATE;
    SELECT * INTO job FROM background_jobs WHERE id = p_job AND (p_user IS NULL OR user_id = p_user) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    ELSIF job.status NOT IN ('pending', 'running') THEN
        RETURN 'ended';
    ELSIF job.status = 'running' THEN
        UPDATE background_jobs SET cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()) WHERE id = p_job;
        UPDATE turno.tickets SET cancel_at = coalesce(cancel_at, clock_timestamp()) WHERE job_id = p_job;
        RETURN 'requested';
    END IF;
    PERFORM job_end(p_job, 'cancelled', p_reason, NULL, NULL);
    RETURN 'cancelled';
END $$;

-- Running ---------------------------------------------------------------------------------------

-- Open the attempt and hand out what the handler needs.
CREATE FUNCTION job_start(p_job uuid, p_token uuid, p_worker text)
RETURNS TABLE (payload jsonb, user_id text, correlation_id text, trace_context text, attempt integer, errors integer,
               max_attempts integer, checkpoint jsonb, expired boolean, cancelled boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    run_number integer;
BEGIN
    PERFORM claim_hold(p_job, p_token);
    SELECT t.attempt INTO run_number FROM turno.tickets t WHERE t.job_id = p_job;
    RETURN QUERY
        UPDATE background_jobs j
        SET status = 'running', attempt = run_number, reason = NULL, started_at = coalesce(j.started_at, clock_timestamp())
        WHERE j.id = p_job AND j.status = 'pending'
        RETURNING j.payload, j.user_id, j.correlation_id, j.trace_context, j.attempt, j.errors, j.max_attempts,
                  (SELECT c.state FROM background_job_checkpoints c WHERE c.job_id = p_job),
                  coalesce(j.expires_at <= clock_timestamp(), false), j.cancel_requested_at IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % is not waiting; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
    INSERT INTO background_job_attempts (job_id, attempt, token, worker, backend_pid, backend_start)
    SELECT p_job, run_number, p_token, p_worker, a.pid, a.backend_start
    FROM pg_stat_get_activity(pg_backend_pid()) AS a;
END $$;

-- Shown at once from the handler's second session. A plain look at the token: it must never
-- wait for the job's own transaction, which may hold the ticket. Never goes back.
CREATE FUNCTION job_progress(p_job uuid, p_token uuid, p_done integer, p_total integer, p_message text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token AND state = 'running';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim on job % was lost; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
    INSERT INTO background_job_progress AS p (job_id, done, total, message) VALUES (p_job, p_done, p_total, p_message)
    ON CONFLICT (job_id) DO UPDATE
    SET done = greatest(p.done, excluded.done), total = greatest(p.total, excluded.total),
        message = coalesce(excluded.message, p.message), revision = p.revision + 1, updated_at = clock_timestamp();
    RETURN (SELECT cancel_requested_at IS NOT NULL FROM background_jobs WHERE id = p_job);
END $$;

-- Has somebody asked this job to stop?
CREATE FUNCTION job_cancel_requested(p_job uuid) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT cancel_requested_at IS NOT NULL FROM background_jobs WHERE id = p_job;
END;

-- A chunk of the ledger, in the transaction that did the work: items are an array of
-- {key, state, ref, error}. Progress follows from the ledger. Returns whether to stop.
CREATE FUNCTION job_items(p_job uuid, p_token uuid, p_items jsonb, p_total integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    done_now integer;
    failed_now integer;
BEGIN
    PERFORM attempt_check(p_token);
    PERFORM claim_hold(p_job, p_token);
    INSERT INTO background_job_items (job_id, key, state, ref, error)
    SELECT p_job, i.key, i.state, i.ref, i.error
    FROM jsonb_to_recordset(p_items) AS i (key text, state text, ref text, error jsonb);
    SELECT count(*) FILTER (WHERE i.state = 'done'), count(*) FILTER (WHERE i.state = 'failed')
    INTO done_now, failed_now
    FROM jsonb_to_recordset(p_items) AS i (state text);
    INSERT INTO background_job_progress AS p (job_id, done, failed, total) VALUES (p_job, done_now, failed_now, p_total)
    ON CONFLICT (job_id) DO UPDATE
    SET done = p.done + excluded.done, failed = p.failed + excluded.failed, total = excluded.total,
        revision = p.revision + 1, updated_at = clock_timestamp();
    RETURN job_cancel_requested(p_job);
END $$;

CREATE FUNCTION job_checkpoint(p_job uuid, p_token uuid, p_state jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM attempt_check(p_token);
    PERFORM claim_hold(p_job, p_token);
    INSERT INTO background_job_checkpoints (job_id, state) VALUES (p_job, p_state)
    ON CONFLICT (job_id) DO UPDATE SET state = excluded.state, updated_at = clock_timestamp();
    RETURN job_cancel_requested(p_job);
END $$;

-- Ending ----------------------------------------------------------------------------------------

CREATE FUNCTION job_complete(p_job uuid, p_token uuid, p_result jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM attempt_check(p_token);
    PERFORM claim_hold(p_job, p_token);
    PERFORM attempt_end(p_job, 'completed', NULL);
    PERFORM job_end(p_job, 'completed', NULL, p_result, NULL);
END $$;

-- The attempt ended in an error. With a delay the job waits that long and runs again; without
-- one it is failed for good. A job that somebody wants cancelled is not tried again. p_afresh: the
-- attempt was healthy for so long that the errors before it no longer count.
CREATE FUNCTION job_fail(p_job uuid, p_token uuid, p_reason text, p_error jsonb, p_retry_in interval, p_afresh boolean)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    PERFORM attempt_end(p_job, 'error', p_error);
    IF job_cancel_requested(p_job) THEN
        PERFORM job_end(p_job, 'cancelled', 'cancelled on request', NULL, p_error);
        RETURN 'cancelled';
    END IF;
    IF p_afresh THEN
        UPDATE background_jobs SET errors = 0 WHERE id = p_job;
    END IF;
    IF p_retry_in IS NULL THEN
        UPDATE background_jobs SET errors = errors + 1 WHERE id = p_job;
        PERFORM job_end(p_job, 'failed', p_reason, NULL, p_error);
        RETURN 'failed';
    END IF;
    PERFORM job_requeue(p_job, clock_timestamp() + p_retry_in, p_reason, p_error, 1, 0);
    RETURN 'pending';
END $$;

-- The attempt ended without fault: rescheduled by its handler, or handed back. Nothing is counted,
-- and a poller that ended well starts with no errors next time.
CREATE FUNCTION job_release(p_job uuid, p_token uuid, p_outcome text, p_reason text, p_run_at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    PERFORM attempt_end(p_job, p_outcome, NULL);
    IF job_cancel_requested(p_job) THEN
        PERFORM job_end(p_job, 'cancelled', 'cancelled on request', NULL, NULL);
        RETURN 'cancelled';
    END IF;
    IF p_outcome = 'rescheduled' THEN
        UPDATE background_jobs SET errors = 0 WHERE id = p_job AND errors > 0;
    END IF;
    PERFORM job_requeue(p_job, p_run_at, p_reason, NULL, 0, 0);
    RETURN 'pending';
END $$;

CREATE FUNCTION job_abandon(p_job uuid, p_token uuid, p_reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    PERFORM attempt_end(p_job, 'cancelled', NULL);
    PERFORM job_end(p_job, 'cancelled', p_reason, NULL, NULL);
END $$;

-- Recovering: executed by the engine, which has no other right here -----------------------------

-- The worker or child that held this claim is dead. Its backend is ended first, so that its
-- locks go and nothing of it can commit later; then the claim is taken from it, if it still has it.
-- At the third crash the job is failed with the cause. Uncounted it is only handed back: its worker
-- was told to stop and could not wait for it.
CREATE FUNCTION job_rescue(p_job uuid, p_token uuid, p_cause text, p_retry_in interval, p_counted boolean) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    job background_jobs;
    crash jsonb := jsonb_build_object('class', 'Crash', 'message', p_cause);
BEGIN
    PERFORM pg_terminate_backend(s.pid, 5000)
    FROM background_job_attempts a
    JOIN pg_stat_get_activity(a.backend_pid) s ON s.pid = a.backend_pid AND s.backend_start = a.backend_start
    WHERE a.job_id = p_job AND a.token = p_token AND a.finished_at IS NULL;

    PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token AND state = 'running' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'gone';
    END IF;
    SELECT * INTO job FROM background_jobs WHERE id = p_job FOR UPDATE;
    IF NOT FOUND OR job.status NOT IN ('pending', 'running') THEN
        DELETE FROM turno.tickets WHERE job_id = p_job;
        RETURN 'gone';
    END IF;
    IF job.status = 'pending' THEN
        -- Claimed but never started, for example because the login was refused: no fault of the job's.
        PERFORM job_requeue(p_job, clock_timestamp() + p_retry_in, p_cause, job.error, 0, 0);
        RETURN 'pending';
    END IF;
    -- Not attempt_end: a rescue mends what it finds and refuses nothing.
    UPDATE background_job_attempts
    SET finished_at = clock_timestamp(), outcome = CASE WHEN p_counted THEN 'crashed' ELSE 'released' END, error = crash
    WHERE job_id = p_job AND finished_at IS NULL;
    IF job.cancel_requested_at IS NOT NULL THEN
        PERFORM job_end(p_job, 'cancelled', 'cancelled on request', NULL, crash);
        RETURN 'cancelled';
    ELSIF p_counted AND job.crashes >= 2 THEN
        UPDATE background_jobs SET crashes = crashes + 1 WHERE id = p_job;
        PERFORM job_end(p_job, 'failed', p_cause, NULL, crash);
        RETURN 'failed';
    END IF;
    PERFORM job_requeue(p_job, clock_timestamp() + p_retry_in, p_cause, crash, 0, p_counted::integer);
    RETURN 'pending';
END $$;

-- Make the tickets agree with the jobs again; returns how many rows had to change.
CREATE FUNCTION job_repair(p_backend text, p_dry_run boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    changed bigint;
    n bigint;
BEGIN
    IF p_dry_run THEN
        SELECT count(*) INTO n FROM background_jobs j
        WHERE j.status IN ('pending', 'running') AND NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = j.id);
        SELECT n + count(*) INTO changed FROM turno.tickets t
        WHERE NOT EXISTS (SELECT FROM background_jobs j WHERE j.id = t.job_id AND j.status IN ('pending', 'running'));
        RETURN changed;
    END IF;
    -- Running without a ticket: its claim can never be proved again, so it waits once more.
    WITH lost AS (
        SELECT j.id FROM background_jobs j
        WHERE j.status = 'running' AND NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = j.id)
        FOR UPDATE SKIP LOCKED
    ), closed AS (
        UPDATE background_job_attempts a SET finished_at = clock_timestamp(), outcome = 'released'
        FROM lost WHERE a.job_id = lost.id AND a.finished_at IS NULL
    )
    UPDATE background_jobs j SET status = 'pending', reason = 'its ticket was missing', run_at = clock_timestamp()
    FROM lost WHERE j.id = lost.id AND j.status = 'running';
    GET DIAGNOSTICS changed = ROW_COUNT;
    INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt)
    SELECT j.id, turno.tenant_of(current_user), j.queue, j.type, j.version, j.priority, j.run_at,
           CASE WHEN j.run_at > clock_timestamp() THEN 'scheduled' ELSE 'ready' END, p_backend, j.attempt
    FROM background_jobs j
    WHERE j.status = 'pending' AND NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = j.id)
    -- Held, so that whoever cancels it meanwhile waits and then finds the ticket to remove.
    FOR UPDATE SKIP LOCKED
    ON CONFLICT (job_id) DO NOTHING;
    GET DIAGNOSTICS n = ROW_COUNT;
    changed := greatest(changed, n);
    DELETE FROM turno.tickets t
    WHERE NOT EXISTS (SELECT FROM background_jobs j WHERE j.id = t.job_id AND j.status IN ('pending', 'running'));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN changed + n;
END $$;

CREATE FUNCTION job_expire(p_dry_run boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    expired bigint := 0;
    job uuid;
BEGIN
    FOR job IN SELECT id FROM background_jobs
               WHERE status = 'pending' AND expires_at <= clock_timestamp() ORDER BY expires_at LIMIT 1000 LOOP
        IF p_dry_run THEN
            expired := expired + 1;
            CONTINUE;
        END IF;
        -- A ticket that someone holds right now is being claimed: job_start will see the expiry.
        PERFORM FROM turno.tickets WHERE job_id = job AND state <> 'running' FOR UPDATE SKIP LOCKED;
        IF FOUND AND job_end(job, 'cancelled', 'expired', NULL, NULL) THEN
            expired := expired + 1;
        END IF;
    END LOOP;
    RETURN expired;
END $$;

-- Remove ended jobs with all their history, a batch at a time. A failed one stays as long as its
-- dead letter waits for somebody. A job may outlive the one that it continues.
CREATE FUNCTION job_purge(p_older_than interval, p_limit integer, p_dry_run boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    old uuid[];
BEGIN
    SELECT array_agg(id) INTO old FROM (
        SELECT j.id FROM background_jobs j
        WHERE j.finished_at < clock_timestamp() - p_older_than
          AND NOT EXISTS (SELECT FROM background_jobs_dead_letter d WHERE d.job_id = j.id AND d.replayed_at IS NULL)
        ORDER BY j.finished_at LIMIT p_limit
        FOR UPDATE SKIP LOCKED) AS batch;
    IF p_dry_run OR old IS NULL THEN
        RETURN coalesce(cardinality(old), 0);
    END IF;
    DELETE FROM background_job_attempts WHERE job_id = ANY (old);
    DELETE FROM background_job_progress WHERE job_id = ANY (old);
    DELETE FROM background_job_checkpoints WHERE job_id = ANY (old);
    DELETE FROM background_job_items WHERE job_id = ANY (old);
    DELETE FROM background_job_events WHERE job_id = ANY (old);
    DELETE FROM background_jobs_dead_letter WHERE job_id = ANY (old);
    DELETE FROM notifications WHERE job_id = ANY (old);
    DELETE FROM background_jobs WHERE id = ANY (old);
    RETURN cardinality(old);
END $$;

-- Notifications -----------------------------------------------------------------------------------

CREATE FUNCTION notification_read(p_notification uuid, p_user text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE notifications SET read_at = coalesce(read_at, clock_timestamp())
    WHERE id = p_notification AND user_id = p_user;
    RETURN FOUND;
END $$;
