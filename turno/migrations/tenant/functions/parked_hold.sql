-- Lock the tickets of the jobs that are parked for p_doubt, before a settlement locks further rows.
CREATE OR REPLACE FUNCTION parked_hold(p_doubt text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM turno.tickets WHERE job_id = ANY (ARRAY(SELECT id FROM background_jobs WHERE in_doubt = p_doubt))
    ORDER BY job_id FOR UPDATE;
END $$;
