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

-- The fields that the jobs of one call share, and the schema that they go to. Raises if an argument is invalid or not allowed:
-- as strict as POST, except about the fields of payloads. The callers have pinned search_path.
CREATE OR REPLACE FUNCTION enqueue_target(
    p_tenant text, p_type text, p_priority text, p_keys text[], p_unique_for interval, p_unique_while text, p_queue text,
    p_concurrency_keys text[],
    OUT schema text, OUT job new_job, OUT pending_limit integer)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    own record;
BEGIN
    SELECT a.schema, a.backend INTO schema, job.backend FROM tenant_for_caller(p_tenant) AS a;
    SELECT h.version, h.queue::text AS queue, h.max_attempts, h.pending_limit, h.other_queues, h.keyed
    INTO own FROM handlers h WHERE h.type = p_type;
    IF NOT FOUND THEN
        PERFORM not_enqueued('TU011', format('no handler has the type %L', left(p_type, 60)),
            format('known are: %s; `turno db migrate` and every worker tell the database what TURNO_HANDLERS names',
                   coalesce((SELECT string_agg(h.type, ', ' ORDER BY h.type) FROM handlers h), 'none')));
    END IF;
    job.priority := array_position('{urgent,normal,low}'::text[], p_priority) - 1;
    IF job.priority IS NULL THEN
        PERFORM not_enqueued('TU012', format('priority %L is none', left(p_priority, 60)), 'say urgent, normal or low');
    END IF;
    IF p_unique_for <= interval '0' OR p_unique_for > interval '366 days' THEN
        PERFORM not_enqueued('TU012', format('unique_for %L is too short or too long', p_unique_for),
                             'say a time above 0 of at most a year');
    END IF;
    IF p_unique_while NOT IN ('open', 'for ever') OR p_unique_while IS NOT NULL AND p_unique_for IS NOT NULL THEN
        PERFORM not_enqueued('TU012', format('unique_while %L is none, or comes with unique_for', left(p_unique_while, 60)),
                             'say open, or for ever, or leave it to unique_for');
    END IF;
    IF p_queue <> own.queue AND p_queue <> ALL (own.other_queues) THEN
        PERFORM not_enqueued('TU012', format('jobs of type %L do not wait in the queue %L', p_type, left(p_queue, 63)),
                             format('say one of: %s', array_to_string(own.queue || own.other_queues, ', ')));
    END IF;
    IF own.keyed AND p_concurrency_keys IS NULL THEN
        PERFORM not_enqueued('TU012', format('a job of type %L takes turns with others of its concurrency_key', p_type),
                             'name it as the handler would, or an empty one if this job has none');
    END IF;
    IF EXISTS (SELECT FROM unnest(p_concurrency_keys) AS k WHERE octet_length(k) > 255) THEN
        PERFORM not_enqueued('TU012', 'a concurrency_key has at most 255 bytes', 'choose another key');
    END IF;
    IF p_keys IS NOT NULL AND EXISTS (SELECT FROM unnest(p_keys) AS k WHERE k COLLATE "C" !~ '^[!-~]{1,255}$') THEN
        PERFORM not_enqueued('TU012', 'a key has 1 to 255 letters, digits and signs of ASCII, without spaces',
                             'choose another key');
    END IF;
    job.type := p_type;
    job.version := own.version;
    job.queue := coalesce(p_queue, own.queue);
    job.max_attempts := own.max_attempts;
    job.unique_for := p_unique_for;
    job.unique_while := p_unique_while;
    pending_limit := own.pending_limit;
END $$;

-- The schema and the backend for jobs of a tenant, if the caller may use them. The callers have pinned search_path.
CREATE OR REPLACE FUNCTION tenant_for_caller(p_tenant text, OUT schema text, OUT backend text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    own record;
BEGIN
    SELECT n.slug, n.schema, n.adopted_schema, backend_now(n.id) AS backend
    INTO own FROM tenants n WHERE n.slug = p_tenant AND n.state = 'active';
    IF NOT FOUND THEN
        PERFORM not_enqueued('TU010', format('no active tenant is called %L', left(p_tenant, 60)),
                             'make it by `turno tenant add`, or see `turno tenant list`');
    END IF;
    IF own.adopted_schema IS NOT NULL AND NOT caller_may_use(own.adopted_schema) THEN
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

-- Whether the caller may use a schema of the application: a role without access to a customer's tables enqueues no job there.
-- The caller is the login, or its role after SET ROLE; SQL can forge neither.
CREATE OR REPLACE FUNCTION caller_may_use(p_schema text) RETURNS boolean LANGUAGE sql STABLE
RETURN (SELECT has_schema_privilege(session_user, n.oid, 'USAGE')
               OR has_schema_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user)::name, n.oid, 'USAGE')
        FROM pg_catalog.pg_namespace n WHERE n.nspname = p_schema::name) IS TRUE;

-- The backend of a tenant's next job according to the database: the run-time setting, else the backend of a living worker,
-- residents first.
CREATE OR REPLACE FUNCTION backend_now(p_tenant integer) RETURNS text LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT backend_for(p_tenant, coalesce(
        (SELECT w.backend FROM workers w WHERE w.alive_at > clock_timestamp() - interval '2 minutes'
         ORDER BY w.backend = 'exec', w.alive_at DESC LIMIT 1), 'exec'));
END;
