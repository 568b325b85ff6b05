-- Hold the claim until the transaction ends, or raise: whoever lost it writes nothing.
CREATE OR REPLACE FUNCTION claim_hold(p_job uuid, p_token uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim on job % was lost; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
    PERFORM commit_durably();
END $$;
