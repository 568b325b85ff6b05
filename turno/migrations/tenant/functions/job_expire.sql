CREATE OR REPLACE FUNCTION job_expire() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    expired bigint := 0;
    job uuid;
BEGIN
    FOR job IN SELECT id FROM background_jobs
               WHERE finished_at IS NULL AND status = 'pending' AND expires_at <= clock_timestamp() ORDER BY expires_at LIMIT 1000 LOOP
        -- A ticket that someone holds right now is being claimed: jobs_fetch will see the expiry.
        PERFORM FROM turno.tickets WHERE job_id = job AND state <> 'running' FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        BEGIN
            expired := expired + job_end(job, 'cancelled', 'expired', NULL, NULL)::integer;
        EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
            RAISE WARNING 'job % cannot expire: %', job, SQLERRM;
        END;
    END LOOP;
    RETURN expired;
END $$;
