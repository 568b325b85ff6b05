-- Jobs created by a running attempt: for the same user, on the same backend, while the user has few open jobs.
CREATE OR REPLACE FUNCTION job_enqueue_child(p_job uuid, p_token uuid, p_jobs jsonb)
RETURNS TABLE (n bigint, job_id uuid, verdict text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    child turno.new_job := claimed_job(p_job, p_token);
BEGIN
    PERFORM assert_few_open(child.user_id, jsonb_array_length(p_jobs));
    RETURN QUERY SELECT e.n, e.job_id, e.verdict FROM jobs_enqueue(child_jobs(child, p_jobs)) AS e;
END $$;

-- Raise if p_new jobs more, created by a running attempt, exceed the limit of a user's open jobs. The limit is per user: jobs
-- that create jobs like themselves would otherwise multiply. Without a lock, which a handler would hold while it works:
-- concurrent jobs may exceed the limit together. The caller has pinned search_path.
CREATE OR REPLACE FUNCTION assert_few_open(p_user text, p_new integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_new > 0 AND p_new + (SELECT count(*) FROM (SELECT FROM background_jobs j
                                                    WHERE j.user_id = p_user AND j.finished_at IS NULL
                                                    LIMIT 1000) AS open) > 1000 THEN
        RAISE EXCEPTION 'the jobs of a user may not create more than 1000 open jobs; let some end, or make fewer parts'
            USING ERRCODE = 'TU003';
    END IF;
END $$;

-- The fields that each job created by this running attempt takes from the attempt's job; raises if the claim was lost. It
-- locks no row: an attempt would keep the ticket's lock while it works. The callers have pinned search_path.
CREATE OR REPLACE FUNCTION claimed_job(p_job uuid, p_token uuid) RETURNS turno.new_job LANGUAGE plpgsql AS $$
DECLARE
    child turno.new_job;
BEGIN
    SELECT j.user_id, t.backend, j.correlation_id, j.trace_context, j.id
    INTO child.user_id, child.backend, child.correlation_id, child.trace_context, child.parent_id
    FROM turno.tickets t JOIN background_jobs j ON j.id = t.job_id WHERE t.job_id = p_job AND t.token = p_token;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim on job % was lost; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
    RETURN child;
END $$;

-- Jobs that an attempt describes by the names of their fields. A handler chooses no field of p_child, and none that
-- connects a job with other jobs. The callers have pinned search_path.
CREATE OR REPLACE FUNCTION child_jobs(p_child turno.new_job, p_jobs jsonb) RETURNS turno.new_job[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT jsonb_populate_record(p_child, j.job - '{user_id,backend,correlation_id,trace_context,parent_id,payload_hash,
                                                        key_position,awaited_by}'::text[]
                                              - CASE WHEN p_child.priority IS NULL THEN '' ELSE 'priority' END)
        FROM jsonb_array_elements(p_jobs) WITH ORDINALITY AS j (job, n) ORDER BY j.n);
END $$;
