-- Delete a batch of uploads that no job has read in time. The trigger job_files_forget deletes files of deleted jobs.
CREATE OR REPLACE FUNCTION file_purge(p_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    removed bigint;
BEGIN
    DELETE FROM job_files WHERE id IN (
        SELECT f.id FROM job_files f WHERE f.expires_at < clock_timestamp()
        ORDER BY f.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;
