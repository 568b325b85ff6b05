-- Split a job into parts, in the transaction of its attempt. A job that continues another job takes over its parts: completed
-- parts unchanged, and in place of an unfinished part the job that continues it. Then p_payloads is ignored.
CREATE OR REPLACE FUNCTION job_fan_out(
    p_job uuid, p_token uuid, p_type text, p_version smallint, p_queue text, p_max_attempts integer, p_payloads jsonb,
    p_lines text[], p_stops boolean, p_total integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    own_tenant integer := turno.tenant_of(current_user);
    own_backend text;
    job background_jobs;
    before uuid;
    due timestamptz := clock_timestamp();
BEGIN
    PERFORM claim_hold(p_job, p_token);
    SELECT t.backend INTO own_backend FROM turno.tickets t WHERE t.job_id = p_job;
    SELECT * INTO job FROM background_jobs WHERE id = p_job;
    IF EXISTS (SELECT FROM background_job_parts WHERE part_id = p_job) THEN
        RAISE EXCEPTION 'a part of a job has no parts of its own; split the job itself into more parts' USING ERRCODE = 'TU003';
    END IF;
    IF p_total IS NOT NULL THEN
        INSERT INTO background_job_progress AS p (job_id, total) VALUES (p_job, p_total)
        ON CONFLICT (job_id) DO UPDATE SET total = excluded.total, revision = p.revision + 1;
    END IF;
    SELECT o.id INTO before FROM background_jobs o WHERE o.id = job.parent_id AND o.successor_id = p_job;
    INSERT INTO background_job_parts (job_id, n, part_id, stops)
    SELECT p_job, b.n, part_continued(b.part_id, own_backend), b.stops
    FROM background_job_parts b WHERE b.job_id = before ORDER BY b.n;
    IF FOUND THEN
        UPDATE turno.tickets t SET awaited_by = p_job
        WHERE t.job_id IN (SELECT b.part_id FROM background_job_parts b WHERE b.job_id = p_job);
        -- What the parts have done before counts, by their ledgers or, without one, by their progress.
        UPDATE background_job_progress p SET done = (
            SELECT sum(greatest(coalesce(o.done, 0), (SELECT count(*) FROM background_job_items i
                                                      WHERE i.job_id = b.part_id AND i.state IN ('done', 'skipped'))))
            FROM background_job_parts b LEFT JOIN background_job_progress o ON o.job_id = b.part_id
            WHERE b.job_id = p_job)
        WHERE p.job_id = p_job AND p.total > 0;
        RETURN;
    END IF;
    PERFORM assert_few_open(job.user_id, jsonb_array_length(p_payloads));
    WITH parts AS MATERIALIZED (
        SELECT turno.uuid_v7() AS id, p.n, p.payload, p_lines[p.n] AS line
        FROM jsonb_array_elements(p_payloads) WITH ORDINALITY AS p (payload, n)
    ), made AS (
        INSERT INTO background_jobs (id, type, version, queue, priority, payload, user_id, correlation_id, trace_context,
                                     max_attempts, run_at, parent_id, concurrency_key)
        SELECT p.id, p_type, p_version, p_queue, job.priority, p.payload, job.user_id, job.correlation_id,
               job.trace_context, p_max_attempts, due, p_job, p.line
        FROM parts p
    ), tickets AS (
        INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt,
                                   concurrency_key, awaited_by)
        SELECT p.id, own_tenant, p_queue, p_type, p_version, job.priority, due,
               CASE WHEN p.line IS NULL THEN 'ready' ELSE 'scheduled' END, own_backend, 0, p.line, p_job
        FROM parts p
    )
    INSERT INTO background_job_parts (job_id, n, part_id, stops) SELECT p_job, p.n, p.id, p_stops FROM parts p;
END $$;

-- Whether a job can be retried: it failed, was cancelled, or an item of it failed.
CREATE OR REPLACE FUNCTION unfinished(p_job uuid) RETURNS boolean LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM background_jobs j WHERE j.id = p_job AND j.status IN ('failed', 'cancelled'))
    OR EXISTS (SELECT FROM background_job_items i WHERE i.job_id = p_job AND i.state = 'failed');

-- The latest job that continues a part, or a new job if that job is unfinished, too.
CREATE OR REPLACE FUNCTION part_continued(p_part uuid, p_backend text) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    latest background_jobs;
BEGIN
    LOOP
        SELECT * INTO latest FROM background_jobs j WHERE j.id = p_part;
        EXIT WHEN latest.successor_id IS NULL;
        p_part := latest.successor_id;
    END LOOP;
    IF latest.finished_at IS NOT NULL AND unfinished(p_part) THEN
        SELECT r.job_id INTO p_part FROM job_retry(p_part, NULL, p_backend, NULL, NULL, NULL) AS r;
    END IF;
    RETURN p_part;
END $$;
