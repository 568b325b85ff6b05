-- What a job inherits from the running attempt that asks for it; raises if that lost its claim. A plain look: to hold the
-- ticket for as long as the handler works would keep everybody else from it. Called by those alone who have pinned the path.
CREATE OR REPLACE FUNCTION claimed_job(
    p_job uuid, p_token uuid, OUT user_id text, OUT backend text, OUT correlation_id text, OUT trace_context text)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT j.user_id, t.backend, j.correlation_id, j.trace_context
    INTO claimed_job.user_id, claimed_job.backend, claimed_job.correlation_id, claimed_job.trace_context
    FROM turno.tickets t JOIN background_jobs j ON j.id = t.job_id WHERE t.job_id = p_job AND t.token = p_token;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim on job % was lost; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
END $$;
