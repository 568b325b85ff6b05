-- A job of this tenant, no row for an unknown id.
CREATE OR REPLACE FUNCTION application_job(p_job uuid) RETURNS SETOF turno.application_job
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT j.id, j.type, j.status, CASE WHEN j.finished_at IS NOT NULL THEN outcome_of(j.status, p.done, p.failed) END, j.reason,
           p.done, p.failed, p.total, p.message, j.result, (j.error ->> 'class') || ': ' || (j.error ->> 'message'), j.run_at,
           j.created_at, j.started_at, j.finished_at, j.successor_id, j.xmin = pg_current_xact_id_if_assigned()::xid
    FROM background_jobs j LEFT JOIN background_job_progress p ON p.job_id = j.id WHERE j.id = p_job
$$;
