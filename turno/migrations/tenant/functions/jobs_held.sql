-- Which of these claims are still held; they stay so until the transaction ends. Waits for a commit under way that may
-- have ended them: a worker that lost the reply to its COMMIT learns its outcome here.
CREATE OR REPLACE FUNCTION jobs_held(p_jobs uuid[], p_tokens uuid[]) RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off AS $$
BEGIN
    -- A token was given to one job only, so the pairs need not be compared.
    RETURN ARRAY(
        SELECT t.job_id FROM turno.tickets t WHERE t.job_id = ANY (p_jobs) AND t.token = ANY (p_tokens)
        ORDER BY t.job_id FOR UPDATE);
END $$;
