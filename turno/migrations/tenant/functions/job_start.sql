-- Before an attempt is recorded as anything but completed: its row, if the job was too short to be shown as running.
CREATE OR REPLACE FUNCTION job_start(p_job uuid, p_token uuid, p_worker text, p_began timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    PERFORM attempt_open(p_job, p_token, p_worker, pg_backend_pid(), least(p_began, clock_timestamp()));
END $$;
