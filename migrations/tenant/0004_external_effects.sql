-- Effects outside the database, such as an authorisation by the tax authority: each is issued once, or a person is asked.
--
--   nothing  -> intended   one attempt may now make the call
--   intended -> done       the call answered, a look-up found the effect, or a person said so
--   intended -> absent     the call certainly did nothing, or a person said so
--   intended -> intended   issued again, after a look-up found nothing and nobody can still be calling
--   absent   -> intended   issued again
--
-- Lock order: ticket, then effect, then job. No purge and no reference to jobs: that an invoice was authorised is
-- known for as long as the schema lives.

CREATE TABLE external_effects (
    key         text PRIMARY KEY CHECK (length(key) BETWEEN 1 AND 255),
    -- The job type that used the key first. Another type with the same key is a mistake, whichever it is.
    type        text NOT NULL,
    -- What the other side knows the effect by, the same in every attempt.
    outside_key uuid NOT NULL,
    state       text NOT NULL CHECK (state IN ('intended', 'done', 'absent')),
    result      jsonb,
    -- The attempt that may have issued it last, and how often somebody may have.
    job_id      uuid NOT NULL,
    attempt     integer NOT NULL,
    token       uuid NOT NULL,
    calls       integer NOT NULL CHECK (calls >= 0),
    -- Nobody is at the call any more: its own process said so, or its parent saw that process end. That a worker
    -- is not heard of, or that its session is gone, proves nothing: a stopped process may go on and call.
    caller_gone boolean NOT NULL DEFAULT false,
    -- Jobs parked until a person settles this.
    waiting     uuid[] NOT NULL DEFAULT '{}',
    intended_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    settled_at  timestamptz,
    settled_by  text,
    CHECK ((state = 'intended') = (settled_at IS NULL)),
    CHECK ((state = 'intended') = (settled_by IS NULL)),
    CHECK ((state = 'done') = (result IS NOT NULL)),
    CHECK (state = 'intended' OR waiting = '{}')
);
CREATE INDEX external_effects_open ON external_effects (token) WHERE state = 'intended';
CREATE INDEX external_effects_of_job ON external_effects (job_id);

-- While it has a row, the database may be older than the outside world, as after a restore: an effect without a
-- record is then in doubt instead of new.
CREATE TABLE external_doubt (
    since timestamptz PRIMARY KEY DEFAULT clock_timestamp()
);

CREATE INDEX background_jobs_parked ON background_jobs (id) WHERE status = 'pending' AND run_at = 'infinity';

-- Besides the one notification of a job's end there may be some that ask for a decision.
ALTER TABLE notifications DROP CONSTRAINT notifications_job_id_key, DROP CONSTRAINT notifications_kind_check;
ALTER TABLE notifications ADD CONSTRAINT notifications_kind_check
    CHECK (kind IN ('completed', 'failed', 'cancelled', 'needs_review'));
CREATE UNIQUE INDEX notifications_of_an_end ON notifications (job_id) WHERE kind <> 'needs_review';
CREATE INDEX notifications_of_a_review ON notifications (job_id) WHERE kind = 'needs_review';

-- Running ---------------------------------------------------------------------------------------

-- The work so far may be committed: it is this attempt's, in its own transaction. Returns whether to stop.
CREATE FUNCTION job_hold(p_job uuid, p_token uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM attempt_check(p_token);
    PERFORM claim_hold(p_job, p_token);
    RETURN job_cancel_requested(p_job);
END $$;

-- issue: nothing is known of this effect, or that it did not happen; it may now be issued, by this attempt alone.
-- done: it happened, with this result.  doubt: it may have happened; whose intent it was, and whether that caller
-- is gone.  elsewhere: another attempt may be at it now.  foreign: the key is another job type's.
CREATE FUNCTION effect_intend(p_job uuid, p_token uuid, p_key text, p_outside_key uuid)
RETURNS TABLE (verdict text, result jsonb, outside_key uuid, intent uuid, caller_gone boolean, calls integer,
               intended_at timestamptz, age interval)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    job background_jobs;
    effect external_effects;
    unsure boolean := EXISTS (SELECT FROM external_doubt);
BEGIN
    PERFORM claim_hold(p_job, p_token);
    SELECT * INTO job FROM background_jobs WHERE id = p_job;
    INSERT INTO external_effects AS e (key, type, outside_key, state, job_id, attempt, token, calls, caller_gone)
    VALUES (p_key, job.type, p_outside_key, 'intended', p_job, job.attempt, p_token, (NOT unsure)::integer, unsure)
    ON CONFLICT (key) DO NOTHING
    RETURNING * INTO effect;
    IF FOUND THEN
        verdict := CASE WHEN unsure THEN 'doubt' ELSE 'issue' END;
    ELSE
        SELECT * INTO effect FROM external_effects e WHERE e.key = p_key FOR UPDATE;
        IF effect.type <> job.type THEN
            verdict := 'foreign';
        ELSIF effect.state = 'done' THEN
            verdict := 'done';
        ELSIF effect.state = 'absent' THEN
            verdict := CASE WHEN unsure THEN 'doubt' ELSE 'issue' END;
            UPDATE external_effects e
            SET state = 'intended', job_id = p_job, attempt = job.attempt, token = p_token, caller_gone = unsure,
                calls = e.calls + (NOT unsure)::integer, intended_at = clock_timestamp(), settled_at = NULL, settled_by = NULL
            WHERE e.key = p_key
            RETURNING * INTO effect;
        ELSIF effect.token = p_token THEN
            -- Its own call, which has come back somehow: a process makes one call at a time.
            effect.caller_gone := true;
            verdict := 'doubt';
        ELSIF NOT effect.caller_gone
              AND EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = effect.job_id AND t.token = effect.token) THEN
            verdict := 'elsewhere';
        ELSE
            verdict := 'doubt';
        END IF;
    END IF;
    IF verdict IN ('issue', 'doubt') THEN
        -- What has reached for the outside world must come to its end, however late.
        UPDATE background_jobs SET expires_at = NULL WHERE id = p_job AND expires_at IS NOT NULL;
    END IF;
    result := effect.result;
    outside_key := effect.outside_key;
    intent := effect.token;
    caller_gone := effect.caller_gone;
    calls := effect.calls;
    intended_at := effect.intended_at;
    age := clock_timestamp() - effect.intended_at;
    RETURN NEXT;
END $$;

-- Issue again what is in doubt: only if nobody has done so, or settled it, since p_intent was read.
CREATE FUNCTION effect_reissue(p_job uuid, p_token uuid, p_key text, p_intent uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    UPDATE external_effects
    SET job_id = p_job, attempt = (SELECT attempt FROM background_jobs WHERE id = p_job), token = p_token,
        caller_gone = false, calls = calls + 1, intended_at = clock_timestamp()
    WHERE key = p_key AND state = 'intended' AND token = p_intent;
    RETURN FOUND;
END $$;

-- What is known now: done with this result, or absent. Returns false if the effect was settled or issued again
-- since p_intent was read. Who was waiting for a person goes on.
CREATE FUNCTION effect_settle(p_job uuid, p_token uuid, p_key text, p_intent uuid, p_state text, p_result jsonb, p_by text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    PERFORM waiting_hold(p_key);
    RETURN effect_close(p_key, p_intent, p_state, p_result, p_by) IS NOT NULL;
END $$;

-- The attempt's call came back without an answer, so this caller is at it no more.
CREATE FUNCTION effect_let_go(p_job uuid, p_token uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    PERFORM effect_caller_gone(p_token);
END $$;

-- The attempt ends, and its job waits for a person to settle the effect; nothing is counted.
CREATE FUNCTION job_park(p_job uuid, p_token uuid, p_key text, p_reason text, p_error jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    PERFORM attempt_end(p_job, 'released', p_error);
    IF job_cancel_requested(p_job) THEN
        PERFORM job_end(p_job, 'cancelled', 'cancelled on request', NULL, p_error);
        RETURN 'cancelled';
    END IF;
    UPDATE external_effects SET waiting = array_append(waiting, p_job) WHERE key = p_key AND state = 'intended';
    IF NOT FOUND THEN
        -- Settled in this very moment.
        PERFORM job_requeue(p_job, clock_timestamp(), p_reason, NULL, 0, 0);
        RETURN 'pending';
    END IF;
    PERFORM job_requeue(p_job, 'infinity', p_reason, p_error, 0, 0);
    INSERT INTO notifications (job_id, user_id, kind, data)
    SELECT p_job, user_id, 'needs_review', jsonb_build_object('type', type, 'reason', p_reason, 'key', p_key)
    FROM background_jobs WHERE id = p_job;
    RETURN 'pending';
END $$;

-- What the functions here share; executable by the owner alone -------------------------------------

-- Tickets come before effects: those of the jobs that settling this one would wake.
CREATE FUNCTION waiting_hold(p_key text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM turno.tickets
    WHERE job_id IN (SELECT unnest(waiting) FROM external_effects WHERE key = p_key) ORDER BY job_id FOR UPDATE;
END $$;

CREATE FUNCTION effect_close(p_key text, p_intent uuid, p_state text, p_result jsonb, p_by text) RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    parked uuid[];
BEGIN
    SELECT waiting INTO parked FROM external_effects WHERE key = p_key AND state = 'intended' AND token = p_intent FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE external_effects
    SET state = p_state, result = p_result, waiting = '{}', settled_at = clock_timestamp(), settled_by = p_by
    WHERE key = p_key;
    WITH woken AS (
        UPDATE background_jobs
        SET run_at = clock_timestamp(), error = NULL, reason = format('%s was settled as %s by %s', p_key, p_state, p_by)
        WHERE id = ANY (parked) AND status = 'pending' AND run_at = 'infinity'
        RETURNING id, run_at, attempt, reason
    ), told AS (
        INSERT INTO background_job_events (job_id, old_status, new_status, attempt, reason)
        SELECT id, 'pending', 'pending', attempt, reason FROM woken
    ), answered AS (
        UPDATE notifications n SET read_at = clock_timestamp()
        FROM woken WHERE n.job_id = woken.id AND n.kind = 'needs_review' AND n.read_at IS NULL
    ), ready AS (
        UPDATE turno.tickets t SET state = 'ready', run_at = woken.run_at FROM woken WHERE t.job_id = woken.id
    )
    SELECT coalesce(array_agg(id), '{}') INTO parked FROM woken;
    RETURN parked;
END $$;

-- By people ---------------------------------------------------------------------------------------

-- A person says what became of an effect that is in doubt: what the other side answered, or NULL if it is absent.
-- unknown: no such job of this user's, or it has no such effect.  busy: an attempt may be at it now.
-- ended: it was settled before.  settled: the jobs named run on.
CREATE FUNCTION effect_decide(p_job uuid, p_user text, p_key text, p_result jsonb, p_by text)
RETURNS TABLE (verdict text, woken uuid[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    job background_jobs;
    effect external_effects;
    found_state text := CASE WHEN p_result IS NULL THEN 'absent' ELSE 'done' END;
BEGIN
    PERFORM waiting_hold(p_key);
    SELECT * INTO effect FROM external_effects
    WHERE key = p_key AND (job_id = p_job OR p_job = ANY (waiting)) FOR UPDATE;
    IF NOT FOUND OR NOT EXISTS (SELECT FROM background_jobs WHERE id = p_job AND (p_user IS NULL OR user_id = p_user)) THEN
        verdict := 'unknown';
    ELSIF effect.state <> 'intended' THEN
        verdict := 'ended';
    ELSIF EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = effect.job_id AND t.token = effect.token) THEN
        verdict := 'busy';
    ELSE
        verdict := 'settled';
        woken := effect_close(p_key, effect.token, found_state, p_result, p_by);
        SELECT * INTO job FROM background_jobs WHERE id = p_job;
        -- Who waits for nothing more has its history too.
        IF p_job <> ALL (woken) THEN
            INSERT INTO background_job_events (job_id, old_status, new_status, attempt, reason)
            VALUES (p_job, job.status, job.status, job.attempt, format('%s was settled as %s by %s', p_key, found_state, p_by));
        END IF;
    END IF;
    RETURN NEXT;
END $$;

-- By the engine -----------------------------------------------------------------------------------

-- The process that held this claim has ended and was buried by its parent: whatever call it was making, it makes no more.
CREATE FUNCTION effect_caller_gone(p_token uuid) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    UPDATE external_effects SET caller_gone = true WHERE token = p_token AND state = 'intended';
END;
