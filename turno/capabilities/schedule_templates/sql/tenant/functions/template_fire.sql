-- Insert the jobs of these moments and set the next one, in one transaction; returns the number of jobs, or null if another
-- process was faster, or the copy was changed, since its next moment was p_was. A moment that has its job gets no second one.
-- p_missed moments get no job; p_problem is the caller's reason. If p_next_at is p_was, only p_problem is recorded. Without
-- a handler of the type that allows the queue no job is made. A copy with p_most_open open jobs gets no more.
CREATE OR REPLACE FUNCTION template_fire(
    p_template uuid, p_was timestamptz, p_moments timestamptz[], p_next_at timestamptz, p_missed integer, p_problem text,
    p_backend text, p_most_open integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    own_tenant integer := turno.tenant_of(current_user);
    copy turno.template_copies;
    job turno.new_job;
    jobs turno.new_job[];
    made uuid[] := '{}';
    refused text;
BEGIN
    -- A crash of the server that loses this commit loses all of it, and the next run of maintenance fires again.
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT * INTO copy FROM turno.template_copies c
    WHERE c.tenant_id = own_tenant AND c.template_id = p_template AND c.next_at = p_was FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF p_next_at = p_was THEN
        UPDATE turno.template_copies c SET problem = p_problem
        WHERE c.tenant_id = own_tenant AND c.template_id = p_template AND c.problem IS DISTINCT FROM p_problem;
        RETURN 0;
    END IF;
    copy.open_jobs := ARRAY(
        SELECT j.id FROM background_jobs j WHERE j.id = ANY (copy.open_jobs) AND j.finished_at IS NULL);
    SELECT t.type, t.payload, t.priority, t.user_id, t.concurrency_key, 'template ' || t.name, p_backend, h.version,
           coalesce(t.queue, h.queue), h.max_attempts
    INTO job.type, job.payload, job.priority, job.user_id, job.concurrency_key, job.origin, job.backend, job.version,
         job.queue, job.max_attempts
    FROM turno.schedule_templates t
    LEFT JOIN turno.handlers h ON h.type = t.type AND (t.queue IS NULL OR t.queue = ANY (h.other_queues || h.queue::text))
    WHERE t.id = p_template;
    IF job.version IS NULL THEN
        refused := concat('no handler has the type ', job.type, ' and the queue ' || job.queue);
    ELSIF cardinality(copy.open_jobs) >= p_most_open THEN
        refused := format('%s of its jobs have not ended', cardinality(copy.open_jobs));
    ELSE
        jobs := ARRAY(
            SELECT jsonb_populate_record(job, jsonb_build_object('run_at', m.moment)) FROM unnest(p_moments) AS m (moment)
            WHERE NOT EXISTS (SELECT FROM turno.template_runs r WHERE r.tenant_id = own_tenant
                              AND r.template_id = p_template AND r.moment = m.moment));
        WITH run AS (
            INSERT INTO turno.template_runs (job_id, tenant_id, template_id, moment)
            SELECT e.job_id, own_tenant, p_template, (jobs[e.n]).run_at FROM jobs_enqueue(jobs) AS e
            RETURNING job_id
        )
        SELECT coalesce(array_agg(job_id), '{}') INTO made FROM run;
    END IF;
    UPDATE turno.template_copies c
    SET next_at = p_next_at, decided_at = clock_timestamp(), open_jobs = copy.open_jobs || made,
        problem = coalesce(refused, p_problem),
        missed_runs = c.missed_runs + p_missed + CASE WHEN refused IS NULL THEN 0 ELSE cardinality(p_moments) END
    WHERE c.tenant_id = own_tenant AND c.template_id = p_template;
    RETURN cardinality(made);
END $$;
