-- Count attempts that lost their claim. One whose end is on record had not: only the answer to its commit was lost.
CREATE OR REPLACE FUNCTION claims_lost(p_jobs uuid[], p_tokens uuid[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    INSERT INTO turno.outcomes (tenant_id, job_id, type, outcome, wait_ms)
    SELECT turno.tenant_of(current_user), j.id, j.type, 'claim_lost', 0
    FROM unnest(p_jobs, p_tokens) AS l (job_id, token) JOIN background_jobs j ON j.id = l.job_id
    WHERE NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = l.job_id AND t.token = l.token)
      AND NOT EXISTS (SELECT FROM background_job_attempts a
                      WHERE a.job_id = l.job_id AND a.token = l.token AND a.outcome NOT IN ('crashed', 'released'));
END;
