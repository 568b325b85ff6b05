-- The attempt ends without an error, and its job runs again when its parts have ended; p_cancel cancels the open parts.
CREATE OR REPLACE FUNCTION job_await_parts(p_job uuid, p_token uuid, p_cancel boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    IF job_wait(p_job, p_token, 'waits for its parts') = 'pending' AND p_cancel THEN
        PERFORM parts_cancel(p_job, 'another part of its job failed');
    END IF;
END $$;

-- Cancel the open parts of a job. Lock order: the job's ticket, then the tickets of its parts in the order of their ids; a part
-- that ends takes no lock on the job.
CREATE OR REPLACE FUNCTION parts_cancel(p_job uuid, p_reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM job_cancel(p.job_id, NULL, p_reason)
    FROM (SELECT t.job_id FROM turno.tickets t WHERE t.awaited_by = p_job ORDER BY t.job_id) AS p;
END $$;
