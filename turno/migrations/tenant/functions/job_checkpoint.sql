CREATE OR REPLACE FUNCTION job_checkpoint(p_job uuid, p_token uuid, p_state jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    stop boolean := claim_hold(p_job, p_token);
BEGIN
    INSERT INTO background_job_checkpoints (job_id, state) VALUES (p_job, p_state)
    ON CONFLICT (job_id) DO UPDATE SET state = excluded.state, updated_at = clock_timestamp();
    RETURN stop;
END $$;
