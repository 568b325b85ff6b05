-- Count attempts that lost their claim: each attempt once, at most 100 in a call. An attempt with a recorded end kept
-- its claim: only the reply to its commit was lost.
CREATE OR REPLACE FUNCTION claims_lost(p_jobs uuid[], p_tokens uuid[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    WITH lost AS (
        UPDATE background_job_attempt_rows a SET lost = true
        FROM unnest(p_jobs[:100], p_tokens[:100]) AS l (job_id, token)
        WHERE a.job_id = l.job_id AND a.token = l.token AND a.outcome IN ('crashed', 'released') AND NOT a.lost
        RETURNING a.job_id
    )
    INSERT INTO turno.outcome_batches (tenant_id, type, outcome, jobs, wait_ms)
    SELECT turno.tenant_of(current_user), j.type, 'claim_lost', array_agg(j.id), array_agg(0)
    FROM lost JOIN background_jobs j ON j.id = lost.job_id GROUP BY j.type;
END;
