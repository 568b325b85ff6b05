-- Enqueue a job in the caller's transaction: for the application that lives in this database, in whatever language.
--   SELECT job_id FROM turno.enqueue(tenant => 'suc0001', type => 'monthly_report', payload => '{"month": "2026-06"}')
-- A payload is checked by code alone, not here: the handler refuses at its first attempt what does not fit.
CREATE OR REPLACE FUNCTION enqueue(
    tenant text, type text, payload jsonb DEFAULT '{}', run_at timestamptz DEFAULT NULL, priority text DEFAULT 'normal',
    key text DEFAULT NULL, unique_for interval DEFAULT NULL, user_id text DEFAULT NULL, version smallint DEFAULT NULL,
    OUT job_id uuid, OUT is_new boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET jit = off SET enable_seqscan = off AS $$
BEGIN
    IF jsonb_typeof(payload) IS DISTINCT FROM 'object' THEN
        PERFORM not_enqueued('TU012', 'a payload is a JSON object', 'name its fields: {"month": "2026-06"}');
    END IF;
    SELECT e.job_id, e.is_new INTO job_id, is_new
    FROM jobs_accept(tenant, type, ARRAY[payload], run_at, priority, CASE WHEN key IS NOT NULL THEN ARRAY[key] END,
                     unique_for, user_id, version) AS e;
END $$;

-- A refusal of what the caller can change, with what to do about it.
CREATE OR REPLACE FUNCTION not_enqueued(p_code text, p_message text, p_hint text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', p_message USING ERRCODE = p_code, HINT = p_hint;
END $$;

-- As strict as POST about everything but the payload's fields. Called by the two above it alone, which have pinned the path.
CREATE OR REPLACE FUNCTION jobs_accept(
    p_tenant text, p_type text, p_payloads jsonb[], p_run_at timestamptz, p_priority text, p_keys text[],
    p_unique_for interval, p_user text, p_version smallint)
RETURNS TABLE (job_id uuid, is_new boolean)
LANGUAGE plpgsql AS $$
DECLARE
    own tenants;
    known handlers;
    bands CONSTANT text[] := '{urgent,normal,low}';
    made record;
    to_run boolean := false;
    answered integer := 0;
BEGIN
    SELECT * INTO own FROM tenants t WHERE t.slug = p_tenant AND t.state = 'active';
    IF NOT FOUND THEN
        PERFORM not_enqueued('TU010', format('no active tenant is called %L', left(p_tenant, 60)),
                             'make it by `turno tenant add`, or see `turno tenant list`');
    END IF;
    IF own.adopted_schema IS NOT NULL AND NOT caller_may_use(own.adopted_schema) THEN
        PERFORM not_enqueued('42501', format('%s may not use the schema %s', session_user, own.adopted_schema),
                             format('GRANT USAGE ON SCHEMA %I to who enqueues for %s', own.adopted_schema, own.slug));
    END IF;
    SELECT * INTO known FROM handlers h WHERE h.type = p_type;
    IF NOT FOUND THEN
        PERFORM not_enqueued('TU011', format('no handler has the type %L', left(p_type, 60)),
            format('known are: %s; `turno migrate` and every worker tell the database what HANDLERS names',
                   coalesce((SELECT string_agg(h.type, ', ' ORDER BY h.type) FROM handlers h), 'none')));
    END IF;
    IF array_position(bands, p_priority) IS NULL THEN
        PERFORM not_enqueued('TU012', format('priority %L is none', left(p_priority, 60)), 'say urgent, normal or low');
    END IF;
    IF p_unique_for <= interval '0' OR p_unique_for > interval '366 days' THEN
        PERFORM not_enqueued('TU012', format('unique_for %L is too short or too long', p_unique_for),
                             'say a time above 0 of at most a year');
    END IF;
    IF p_keys IS NOT NULL THEN
        IF cardinality(p_keys) <> cardinality(p_payloads) THEN
            PERFORM not_enqueued('TU012', format('%s keys for %s payloads', cardinality(p_keys), cardinality(p_payloads)),
                                 'give each payload its key, or none a key');
        END IF;
        IF EXISTS (SELECT FROM unnest(p_keys) AS k WHERE k COLLATE "C" !~ '^[!-~]{1,255}$') THEN
            PERFORM not_enqueued('TU012', 'a key has 1 to 255 letters, digits and signs of ASCII, without spaces',
                                 'choose another key');
        END IF;
    END IF;
    FOR made IN EXECUTE format('SELECT * FROM %I.jobs_enqueue($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)', own.schema)
        USING p_type, coalesce(p_version, known.version), known.queue::text, backend_now(own.id),
              (array_position(bands, p_priority) - 1)::smallint, known.max_attempts, p_payloads, p_keys,
              coalesce(p_user, 'application'), p_run_at, p_unique_for,
              CASE WHEN p_user IS NOT NULL THEN known.pending_limit END
    LOOP
        CASE made.verdict
            WHEN 'conflict' THEN
                PERFORM not_enqueued('TU013',
                    format('the key %L stands for another request, that of job %s', p_keys[made.n], made.job_id),
                    'a new request needs a new key');
            WHEN 'quota' THEN
                PERFORM not_enqueued('TU014', format('user %L would have more than %s jobs open', left(p_user, 60),
                                                     known.pending_limit),
                                     'let one end, cancel one, or raise MAX_PENDING_JOBS_PER_USER');
            WHEN 'run_at' THEN
                PERFORM not_enqueued('TU012', format('run_at %L is too far away', p_run_at),
                                     'say a time at most a year ahead and a day past');
            ELSE
                answered := answered + 1;
                job_id := made.job_id;
                is_new := made.verdict = 'accepted';
                to_run := to_run OR is_new AND coalesce(p_run_at <= clock_timestamp(), true);
                RETURN NEXT;
        END CASE;
    END LOOP;
    IF answered < cardinality(p_payloads) THEN
        RAISE serialization_failure USING MESSAGE = 'the job under a key went away meanwhile; try again';
    END IF;
    -- Heard when the caller commits, and never if that rolls back. It takes a lock that all commits with a notification
    -- share: who commits hundreds a second does without, by this setting, and is found by the workers' polling.
    IF to_run AND current_setting('turno.notify', true) IS DISTINCT FROM 'off' THEN
        PERFORM pg_notify('turno_jobs', '');
    END IF;
END $$;

-- Whether whoever called may use a schema of the application's: so who may not reach a customer's tables gives it no jobs.
-- Who that is nobody can forge: the login, or what it became by SET ROLE.
CREATE OR REPLACE FUNCTION caller_may_use(p_schema text) RETURNS boolean LANGUAGE sql STABLE
RETURN (SELECT has_schema_privilege(session_user, n.oid, 'USAGE')
               OR has_schema_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user)::name, n.oid, 'USAGE')
        FROM pg_catalog.pg_namespace n WHERE n.nspname = p_schema::name) IS TRUE;

-- The backend of a tenant's next job, as far as the database knows: what was set at run time, else that of whoever is
-- alive, residents first.
CREATE OR REPLACE FUNCTION backend_now(p_tenant integer) RETURNS text LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT backend_for(p_tenant, coalesce(
        (SELECT w.backend FROM workers w WHERE w.alive_at > clock_timestamp() - interval '2 minutes'
         ORDER BY w.backend = 'exec', w.alive_at DESC LIMIT 1), 'exec'), NULL, 0);
END;
