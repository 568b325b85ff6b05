-- Several small jobs of one type in one transaction: started together, completed together, each with its own
-- claim, attempt and end. What fails among them, or is put back, ends by the functions of a single job.

-- Back to waiting; the caller holds the ticket. A zero delay is ready at once.
CREATE OR REPLACE FUNCTION job_requeue(p_job uuid, p_run_at timestamptz, p_reason text, p_error jsonb, p_errors integer, p_crashes integer)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE background_jobs
    SET status = 'pending', run_at = p_run_at, reason = shortened(p_reason, 1000), error = error_kept(p_error),
        errors = errors + p_errors, crashes = crashes + p_crashes
    WHERE id = p_job AND status IN ('pending', 'running');
    UPDATE turno.tickets
    SET state = CASE WHEN p_run_at > clock_timestamp() THEN 'scheduled' ELSE 'ready' END,
        run_at = p_run_at, worker_id = NULL, token = NULL, published_at = NULL, cancel_at = NULL,
        crashes = crashes + p_crashes
    WHERE job_id = p_job;
END $$;
