-- Make the jobs of these moments of a schedule, or of the tenant's copy of a template, and set the next moment, in one
-- transaction; returns how many jobs, or null if another process was faster, or the rule was changed, since its next moment
-- was p_was. A moment that has its job gets no second one. p_missed moments get no job; p_problem is the caller's reason. If
-- p_next_at is p_was, only p_problem is recorded. Without a handler of the type that allows the queue no job is made. A rule
-- with p_most_open open jobs gets no more; a schedule with an open job gets no more while its user has as many open jobs as
-- allowed.
CREATE OR REPLACE FUNCTION schedule_fire(
    p_template boolean, p_rule uuid, p_was timestamptz, p_moments timestamptz[], p_next_at timestamptz, p_missed integer,
    p_problem text, p_backend text, p_most_open integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    own_tenant integer := turno.tenant_of(current_user);
    rule job_schedules;  -- of a copy: the columns that a template shares, and the state of the copy
    job turno.new_job;
    jobs turno.new_job[];
    made uuid[] := '{}';
    user_limit integer;
    refused text;
BEGIN
    -- A crash of the server that loses this commit loses all its changes, and the next run fires again.
    PERFORM set_config('synchronous_commit', 'off', true);
    IF p_template THEN
        SELECT r.* INTO rule
        FROM turno.schedules c JOIN turno.schedule_templates t ON t.id = c.template_id
        CROSS JOIN LATERAL jsonb_populate_record(NULL::job_schedules, to_jsonb(t) || to_jsonb(c)) AS r
        WHERE c.schedule_id = p_rule AND c.next_at = p_was FOR UPDATE OF c;
    ELSE
        SELECT * INTO rule FROM job_schedules s WHERE s.id = p_rule AND s.next_at = p_was FOR UPDATE;
    END IF;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF p_next_at = p_was THEN
        rule.problem := p_problem;
    ELSE
        rule.open_jobs := ARRAY(
            SELECT j.id FROM background_jobs j WHERE j.id = ANY (rule.open_jobs) AND j.finished_at IS NULL);
        SELECT rule.type, rule.priority, rule.payload, rule.user_id, rule.concurrency_key, p_backend, h.version,
               coalesce(rule.queue, h.queue), h.max_attempts,
               CASE WHEN p_template THEN 'template ' || rule.name ELSE 'schedule ' || rule.id END, h.pending_limit
        INTO job.type, job.priority, job.payload, job.user_id, job.concurrency_key, job.backend, job.version, job.queue,
             job.max_attempts, job.origin, user_limit
        FROM turno.handlers h
        WHERE h.type = rule.type AND (rule.queue IS NULL OR rule.queue = ANY (h.other_queues || h.queue::text));
        IF NOT FOUND THEN
            refused := concat('no handler has the type ', rule.type, ' and the queue ' || rule.queue);
        ELSIF cardinality(rule.open_jobs) >= p_most_open THEN
            refused := format('%s of its jobs have not ended', cardinality(rule.open_jobs));
        ELSIF NOT p_template AND cardinality(rule.open_jobs) > 0
              AND quota_reached(rule.user_id, user_limit) THEN
            refused := 'its user has as many open jobs as allowed';
        ELSE
            jobs := ARRAY(
                SELECT jsonb_populate_record(job, jsonb_build_object('run_at', m.moment)) FROM unnest(p_moments) AS m (moment)
                WHERE NOT EXISTS (SELECT FROM job_schedule_runs r WHERE r.schedule_id = p_rule AND r.moment = m.moment)
                  AND NOT EXISTS (SELECT FROM turno.template_runs r WHERE r.tenant_id = own_tenant
                                  AND r.template_id = rule.id AND r.moment = m.moment));
            WITH new AS MATERIALIZED (
                SELECT e.job_id, (jobs[e.n]).run_at AS moment FROM jobs_enqueue(jobs) AS e
            ), of_schedule AS (
                INSERT INTO job_schedule_runs (schedule_id, moment, job_id)
                SELECT p_rule, n.moment, n.job_id FROM new n WHERE NOT p_template
            ), of_template AS (
                INSERT INTO turno.template_runs (job_id, tenant_id, template_id, moment)
                SELECT n.job_id, own_tenant, rule.id, n.moment FROM new n WHERE p_template
            )
            SELECT coalesce(array_agg(n.job_id), '{}') INTO made FROM new n;
        END IF;
        rule.open_jobs := rule.open_jobs || made;
        rule.decided_at := clock_timestamp();
        rule.problem := coalesce(refused, p_problem);
        rule.missed_runs := rule.missed_runs + p_missed + CASE WHEN refused IS NULL THEN 0 ELSE cardinality(p_moments) END;
    END IF;
    IF p_template THEN
        UPDATE turno.schedules c
        SET (next_at, decided_at, open_jobs, problem, missed_runs)
          = ROW (p_next_at, rule.decided_at, rule.open_jobs, rule.problem, rule.missed_runs)
        WHERE c.schedule_id = p_rule AND (c.next_at, c.problem) IS DISTINCT FROM (p_next_at, rule.problem::text);
    ELSE
        UPDATE job_schedules s
        SET (next_at, decided_at, open_jobs, problem, missed_runs)
          = ROW (p_next_at, rule.decided_at, rule.open_jobs, rule.problem, rule.missed_runs)
        WHERE s.id = p_rule AND (s.next_at, s.problem) IS DISTINCT FROM (p_next_at, rule.problem);
    END IF;
    RETURN cardinality(made);
END $$;
