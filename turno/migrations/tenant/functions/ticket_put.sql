CREATE OR REPLACE FUNCTION ticket_put(p_job uuid, p_queue text, p_type text, p_version smallint, p_priority smallint,
                           p_run_at timestamptz, p_backend text, p_attempt integer, p_concurrency_key text)
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt,
                               concurrency_key)
    VALUES (p_job, turno.tenant_of(current_user), p_queue, p_type, p_version, p_priority, p_run_at,
            CASE WHEN p_run_at > clock_timestamp() OR p_concurrency_key IS NOT NULL THEN 'scheduled' ELSE 'ready' END, p_backend,
            p_attempt, p_concurrency_key)
    ON CONFLICT (job_id) DO NOTHING;
END;
