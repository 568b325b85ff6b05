-- Put a ticket with a refused row into the state `review`, where it delays no other ticket, until a person has checked
-- it; the worker logs the warning. Only the content of the row counts as refused, not a lock or a full disk.
CREATE OR REPLACE FUNCTION set_aside(p_job uuid, p_why text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    BEGIN
        UPDATE tickets SET state = 'review', run_at = 'infinity', published_at = NULL WHERE job_id = p_job;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        p_why := p_why || '; it cannot be set aside either';
    END;
    RAISE WARNING 'job % of % was set aside, its ticket is refused: %', p_job,
        (SELECT n.slug FROM tickets t JOIN tenants n ON n.id = t.tenant_id WHERE t.job_id = p_job), p_why;
END $$;
