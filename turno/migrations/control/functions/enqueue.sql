-- Enqueue a job in the caller's transaction: for applications in this database, in any language.
--   SELECT job_id FROM turno.enqueue(tenant => 'suc0001', type => 'monthly_report', payload => '{"month": "2026-06"}')
-- The payload is not checked here: the handler refuses an invalid payload at the first attempt.
CREATE OR REPLACE FUNCTION enqueue(
    tenant text, type text, payload jsonb DEFAULT '{}', run_at timestamptz DEFAULT NULL, priority text DEFAULT 'normal',
    key text DEFAULT NULL, unique_for interval DEFAULT NULL, user_id text DEFAULT NULL, version smallint DEFAULT NULL,
    unique_while text DEFAULT NULL, concurrency_key text DEFAULT NULL, queue text DEFAULT NULL,
    run_in interval DEFAULT NULL,
    OUT job_id uuid, OUT is_new boolean)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT e.job_id, e.is_new INTO job_id, is_new FROM turno.enqueue_many(
        tenant, type, jsonb_build_array(payload), run_at, priority, CASE WHEN key IS NOT NULL THEN ARRAY[key] END, unique_for,
        user_id, version, unique_while, CASE WHEN concurrency_key IS NOT NULL THEN ARRAY[concurrency_key] END, queue,
        run_in) AS e;
END $$;

-- The schema and the backend for jobs of a tenant, if the caller may use the tenant's schema of the application: a role
-- without access to a customer's tables enqueues no job there. The caller is the login, or its role after SET ROLE; SQL can
-- forge neither. The callers have pinned search_path.
CREATE OR REPLACE FUNCTION tenant_for_caller(p_tenant text, OUT schema text, OUT backend text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    own record;
BEGIN
    SELECT n.slug, n.schema, n.adopted_schema, backend_for(n.id, NULL) AS backend
    INTO own FROM tenants n WHERE n.slug = p_tenant AND n.state = 'active';
    IF NOT FOUND THEN
        PERFORM not_enqueued('TU010', format('no active tenant is called %L', left(p_tenant, 60)),
                             'make it by `turno tenant add`, or see `turno tenant list`');
    END IF;
    IF own.adopted_schema IS NOT NULL AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_namespace n CROSS JOIN unnest(ARRAY[session_user, nullif(current_setting('role'), 'none')]::name[])
            AS caller (name)
        WHERE n.nspname = own.adopted_schema::name AND has_schema_privilege(caller.name, n.oid, 'USAGE')) THEN
        PERFORM not_enqueued('42501', format('%s may not use the schema %s', session_user, own.adopted_schema),
                             format('GRANT USAGE ON SCHEMA %I to who asks for jobs of %s', own.adopted_schema, own.slug));
    END IF;
    schema := own.schema;
    backend := own.backend;
END $$;

-- Refuse a request that the caller can change, with the remedy as the hint.
CREATE OR REPLACE FUNCTION not_enqueued(p_code text, p_message text, p_hint text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', p_message USING ERRCODE = p_code, HINT = p_hint;
END $$;

-- The hint is delivered when the caller commits, and never if the caller rolls back. A commit with a notification takes a
-- lock that all such commits share: an application with hundreds of commits a second turns hints off by this setting, and
-- the workers' polling finds its jobs. A full notification queue refuses the caller's commit, so a queue that is half full
-- gets no hint.
CREATE OR REPLACE FUNCTION hint_at_commit() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('turno.notify', true) IS DISTINCT FROM 'off' AND pg_notification_queue_usage() < 0.5 THEN
        PERFORM pg_notify('turno_jobs', '');
    END IF;
END $$;

-- Enqueue many jobs of one type in the caller's transaction, all or none: payloads are an array of JSON, with as many keys
-- or none. Answers in their order. Raises if an argument is invalid or not allowed: as strict as POST, except about the fields
-- of payloads.
CREATE OR REPLACE FUNCTION enqueue_many(
    tenant text, type text, payloads jsonb, run_at timestamptz DEFAULT NULL, priority text DEFAULT 'normal',
    keys text[] DEFAULT NULL, unique_for interval DEFAULT NULL, user_id text DEFAULT NULL,
    version smallint DEFAULT NULL, unique_while text DEFAULT NULL, concurrency_keys text[] DEFAULT NULL,
    queue text DEFAULT NULL, run_in interval DEFAULT NULL)
RETURNS TABLE (job_id uuid, is_new boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET jit = off SET enable_seqscan = off SET row_security = on AS $$
#variable_conflict use_variable
DECLARE
    schema text;
    own record;
    job new_job;
    jobs new_job[] := '{}';
    amount integer;
    made record;
    to_run boolean := false;
BEGIN
    IF jsonb_typeof(payloads) IS DISTINCT FROM 'array' OR payloads @? '$[*] ? (@.type() <> "object")' THEN
        PERFORM not_enqueued('TU012', 'a payload is a JSON object, and payloads are an array of objects',
                             'name the fields of each: {"month": "2026-06"}');
    END IF;
    IF num_nonnulls(run_at, run_in) > 1 THEN
        PERFORM not_enqueued('TU012', 'run_at and run_in are both given', 'give one of them');
    END IF;
    amount := jsonb_array_length(payloads);
    SELECT a.schema, a.backend INTO schema, job.backend FROM tenant_for_caller(tenant) AS a;
    SELECT h.version, h.queue::text AS queue, h.max_attempts, h.pending_limit, h.other_queues, h.keyed
    INTO own FROM handlers h WHERE h.type = enqueue_many.type;
    IF NOT FOUND THEN
        PERFORM not_enqueued('TU011', format('no handler has the type %L', left(type, 60)),
            format('known are: %s; `turno db migrate` and every worker tell the database what TURNO_HANDLERS names',
                   coalesce((SELECT string_agg(h.type, ', ' ORDER BY h.type) FROM handlers h), 'none')));
    END IF;
    job.priority := array_position('{urgent,normal,low}'::text[], priority) - 1;
    IF job.priority IS NULL THEN
        PERFORM not_enqueued('TU012', format('priority %L is none', left(priority, 60)), 'say urgent, normal or low');
    END IF;
    IF unique_for <= interval '0' OR unique_for > interval '366 days' THEN
        PERFORM not_enqueued('TU012', format('unique_for %L is too short or too long', unique_for),
                             'say a time above 0 of at most a year');
    END IF;
    IF unique_while NOT IN ('open', 'for ever') OR unique_while IS NOT NULL AND unique_for IS NOT NULL THEN
        PERFORM not_enqueued('TU012', format('unique_while %L is none, or comes with unique_for', left(unique_while, 60)),
                             'say open, or for ever, or leave it to unique_for');
    END IF;
    IF queue <> own.queue AND queue <> ALL (own.other_queues) THEN
        PERFORM not_enqueued('TU012', format('jobs of type %L do not wait in the queue %L', type, left(queue, 63)),
                             format('say one of: %s', array_to_string(own.queue || own.other_queues, ', ')));
    END IF;
    IF own.keyed AND concurrency_keys IS NULL THEN
        PERFORM not_enqueued('TU012', format('a job of type %L takes turns with others of its concurrency_key', type),
                             'name it as the handler would, or an empty one if this job has none');
    END IF;
    IF EXISTS (SELECT FROM unnest(concurrency_keys) AS k WHERE octet_length(k) > 255) THEN
        PERFORM not_enqueued('TU012', 'a concurrency_key has at most 255 bytes', 'choose another key');
    END IF;
    IF keys IS NOT NULL AND EXISTS (SELECT FROM unnest(keys) AS k WHERE k COLLATE "C" !~ '^[!-~]{1,255}$') THEN
        PERFORM not_enqueued('TU012', 'a key has 1 to 255 letters, digits and signs of ASCII, without spaces',
                             'choose another key');
    END IF;
    IF cardinality(keys) <> amount OR cardinality(concurrency_keys) <> amount THEN
        PERFORM not_enqueued('TU012', format('%s keys for %s payloads', coalesce(nullif(cardinality(keys), amount),
                                             cardinality(concurrency_keys)), amount),
                             'give each payload its key, or none a key');
    END IF;
    job.type := type;
    job.version := coalesce(version, own.version);
    job.queue := coalesce(queue, own.queue);
    job.max_attempts := own.max_attempts;
    job.unique_for := unique_for;
    job.unique_while := unique_while;
    job.user_id := coalesce(user_id, 'application');
    job.run_at := run_at;
    job.run_in := run_in;
    run_at := coalesce(run_at, clock_timestamp() + run_in);
    FOR i IN 1 .. amount LOOP
        job.payload := payloads -> i - 1;
        job.idempotency_key := keys[i];
        job.concurrency_key := concurrency_keys[i];
        jobs := jobs || job;
    END LOOP;
    FOR made IN EXECUTE format('SELECT job_id, verdict, n FROM %s($1, NULL, $2, NULL, true)',
                               tenant_function(schema, 'jobs_enqueue'))
        USING jobs, CASE WHEN user_id IS NOT NULL THEN own.pending_limit END
    LOOP
        job_id := made.job_id;
        is_new := made.verdict = 'accepted';
        CASE made.verdict
            WHEN 'conflict' THEN
                PERFORM not_enqueued('TU013', format('the key %L stands for another request, that of job %s', keys[made.n],
                                                     job_id), 'a new request needs a new key');
            WHEN 'quota' THEN
                PERFORM not_enqueued('TU014', format('user %L would have more than %s jobs open', left(user_id, 60),
                                                     own.pending_limit),
                                     'let one end, cancel one, or raise pending_jobs_per_user of TURNO_LIMITS');
            WHEN 'run_at' THEN
                PERFORM not_enqueued('TU012', format('run_at %L is too far away', run_at),
                                     'say a time at most a year ahead and a day past');
            ELSE NULL;
        END CASE;
        to_run := to_run OR is_new;
        RETURN NEXT;
    END LOOP;
    IF to_run AND coalesce(run_at <= clock_timestamp(), true) THEN
        PERFORM hint_at_commit();
    END IF;
END $$;
