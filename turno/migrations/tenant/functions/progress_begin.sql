-- The progress of a job with items that other jobs process: the number of items, and of items done before.
CREATE OR REPLACE FUNCTION progress_begin(p_job uuid, p_done integer, p_total integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO background_job_progress_rows AS p (job_id, done, total) VALUES (p_job, p_done, p_total)
    ON CONFLICT (job_id) DO UPDATE
    SET done = greatest(p.done, excluded.done), total = excluded.total, revision = p.revision + 1;
END $$;
