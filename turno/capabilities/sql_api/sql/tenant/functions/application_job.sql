-- A job of this tenant, no row for an unknown id.
CREATE OR REPLACE FUNCTION application_job(p_job uuid) RETURNS SETOF turno.application_job
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
    SELECT j.id, j.type, j.status,
           CASE WHEN j.finished_at IS NOT NULL THEN outcome_of(j.status, j.reason, p.done, p.failed) END, j.reason, p.done,
           p.failed, p.total, p.message, j.result,
           CASE WHEN j.error ? 'for_users' THEN j.error ->> 'message'
                WHEN j.error IS NOT NULL THEN concat_ws(' ', 'unexpected error', j.error ->> 'reference') END,
           CASE WHEN isfinite(j.run_at) THEN j.run_at::timestamptz END,
           j.created_at, j.started_at, j.finished_at, j.successor_id
    FROM background_jobs j LEFT JOIN background_job_progress p ON p.job_id = j.id WHERE j.id = p_job
$$;
