-- The job as `turno.job` returns it, after its end or after this many seconds.
--   SELECT outcome, result FROM turno.wait('suc0001', '…', 30)
-- Each look has a new snapshot, but the caller's statement keeps its snapshot, so the time is bounded.
CREATE OR REPLACE FUNCTION wait(tenant text, job_id uuid, seconds double precision DEFAULT 25) RETURNS SETOF application_job
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    target CONSTANT text := (tenant_for_caller(tenant)).schema;
    until timestamptz;
    pause double precision := 0.02;
    job application_job;
BEGIN
    IF (seconds BETWEEN 0 AND 60) IS NOT TRUE THEN
        PERFORM not_enqueued('TU012', format('a wait of %s seconds is not possible', seconds), 'give 0 to 60 seconds');
    ELSIF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        PERFORM not_enqueued('TU012', 'the transaction has changes, of which the job may be one', 'commit it, then wait');
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM not_enqueued('TU012', format('a transaction in %s sees no later change', current_setting('transaction_isolation')),
                             'wait in a transaction in READ COMMITTED');
    END IF;
    until := clock_timestamp() + make_interval(secs => seconds);
    LOOP
        EXECUTE format('SELECT * FROM %s($1)', tenant_function(target, 'application_job')) INTO job USING job_id;
        EXIT WHEN job.job_id IS NULL OR job.finished_at IS NOT NULL OR clock_timestamp() >= until;
        PERFORM pg_sleep(least(pause, extract(epoch FROM until - clock_timestamp())));
        pause := least(2 * pause, 0.5);
    END LOOP;
    IF job.job_id IS NOT NULL THEN
        RETURN NEXT job;
    END IF;
END $$;
