-- Tickets come before effects: those of the jobs that settling this one would wake.
CREATE OR REPLACE FUNCTION waiting_hold(p_key text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM turno.tickets
    WHERE job_id = ANY (ARRAY(SELECT unnest(waiting) FROM external_effects WHERE key = p_key)) ORDER BY job_id FOR UPDATE;
END $$;
