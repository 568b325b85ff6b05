-- The jobs of a batch as their handlers find them. Nothing is written, so their start is not visible. Jobs with lost
-- claims are missing. Plans are made while the tables are small, kept when they are not, and made once: the ids are
-- given, so the same plan fits all parameters.
CREATE OR REPLACE FUNCTION jobs_fetch(p_jobs uuid[], p_tokens uuid[])
RETURNS TABLE (job_id uuid, payload jsonb, user_id text, correlation_id text, trace_context text, attempt integer,
               errors integer, max_attempts integer, checkpoint jsonb, expired boolean, cancelled boolean, now timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = '1s' AS $$
BEGIN
    RETURN QUERY
        SELECT j.id, j.payload::jsonb, j.user_id::text, j.correlation_id::text, j.trace_context::text, t.attempt, j.errors,
               coalesce((SELECT y.max_attempts FROM turno.job_types y WHERE y.type = j.type), j.max_attempts),
               (SELECT c.state::jsonb FROM background_job_checkpoints c WHERE c.job_id = j.id),
               coalesce(j.expires_at <= clock_timestamp(), false), j.cancel_requested_at IS NOT NULL, clock_timestamp()
        FROM turno.tickets t JOIN background_jobs j ON j.id = t.job_id
        WHERE t.job_id = ANY (p_jobs) AND t.token = ANY (p_tokens)
          AND j.id = ANY (p_jobs) AND j.status IN ('pending', 'running');
END $$;
