-- Once a statement: many jobs end in one.
CREATE OR REPLACE FUNCTION job_audit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO background_job_events (job_id, new_status, attempt, reason)
        SELECT n.id, n.status, n.attempt, n.reason FROM after n;
    ELSE
        INSERT INTO background_job_events (job_id, old_status, new_status, attempt, reason)
        SELECT n.id, o.status, n.status, n.attempt, n.reason FROM after n JOIN before o ON o.id = n.id
        WHERE o.status IS DISTINCT FROM n.status;
    END IF;
    RETURN NULL;
END $$;
