-- Make the jobs of these moments and set the next one, in one transaction; returns how many jobs, or null if another
-- process was faster, or the schedule was changed, since its next moment was p_was. A moment that has its job gets no
-- second one. p_missed moments get no job; p_problem is the caller's reason. If p_next_at is p_was, only p_problem is
-- recorded. Without a handler of the type that allows the queue no job is made. A schedule with p_most_open open jobs gets no more;
-- one with an open job gets no more while its user has as many open jobs as allowed.
CREATE OR REPLACE FUNCTION schedule_fire(
    p_schedule uuid, p_was timestamptz, p_moments timestamptz[], p_next_at timestamptz, p_missed integer, p_problem text,
    p_backend text, p_most_open integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    own job_schedules;
    job turno.new_job;
    jobs turno.new_job[];
    made uuid[] := '{}';
    refused text;
BEGIN
    -- A crash of the server that loses this commit loses all its changes, and the next run fires again.
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT * INTO own FROM job_schedules s WHERE s.id = p_schedule AND s.next_at = p_was FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF p_next_at = p_was THEN
        UPDATE job_schedules s SET problem = p_problem WHERE s.id = p_schedule AND s.problem IS DISTINCT FROM p_problem;
        RETURN 0;
    END IF;
    own.open_jobs := ARRAY(SELECT j.id FROM background_jobs j WHERE j.id = ANY (own.open_jobs) AND j.finished_at IS NULL);
    SELECT s.type, s.priority, s.payload, s.user_id, s.concurrency_key, 'schedule ' || s.id, p_backend, h.version,
           coalesce(s.queue, h.queue), h.max_attempts
    INTO job.type, job.priority, job.payload, job.user_id, job.concurrency_key, job.origin, job.backend, job.version,
         job.queue, job.max_attempts
    FROM job_schedules s
    LEFT JOIN turno.handlers h ON h.type = s.type AND (s.queue IS NULL OR s.queue = ANY (h.other_queues || h.queue::text))
    WHERE s.id = p_schedule;
    IF job.version IS NULL THEN
        refused := concat('no handler has the type ', job.type, ' and the queue ' || job.queue);
    ELSIF cardinality(own.open_jobs) >= p_most_open THEN
        refused := format('%s of its jobs have not ended', cardinality(own.open_jobs));
    ELSIF cardinality(own.open_jobs) > 0
          AND quota_reached(own.user_id, (SELECT h.pending_limit FROM turno.handlers h WHERE h.type = own.type)) THEN
        refused := 'its user has as many open jobs as allowed';
    ELSE
        jobs := ARRAY(
            SELECT jsonb_populate_record(job, jsonb_build_object('run_at', m.moment)) FROM unnest(p_moments) AS m (moment)
            WHERE NOT EXISTS (SELECT FROM job_schedule_runs r WHERE r.schedule_id = p_schedule AND r.moment = m.moment));
        WITH run AS (
            INSERT INTO job_schedule_runs (schedule_id, moment, job_id)
            SELECT p_schedule, (jobs[e.n]).run_at, e.job_id FROM jobs_enqueue(jobs) AS e
            RETURNING job_id
        )
        SELECT coalesce(array_agg(job_id), '{}') INTO made FROM run;
    END IF;
    UPDATE job_schedules s
    SET next_at = p_next_at, decided_at = clock_timestamp(), open_jobs = own.open_jobs || made, problem = coalesce(refused, p_problem),
        missed_runs = s.missed_runs + p_missed + CASE WHEN refused IS NULL THEN 0 ELSE cardinality(p_moments) END
    WHERE s.id = p_schedule;
    RETURN cardinality(made);
END $$;
