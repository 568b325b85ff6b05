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
