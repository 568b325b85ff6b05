-- Add a value to the values of a running job, in the transaction of its work: readers see it after the next commit.
CREATE OR REPLACE FUNCTION job_append(p_job uuid, p_token uuid, p_value jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM claimed_job(p_job, p_token);
    INSERT INTO background_job_values (job_id, value) VALUES (p_job, p_value -> 'value');
END $$;
