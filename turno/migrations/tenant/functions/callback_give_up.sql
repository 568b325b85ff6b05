-- Called by processes of the release before, of what they had taken.
CREATE OR REPLACE FUNCTION callback_give_up(p_job uuid, p_reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM callback_abandon(c.id, p_reason)
    FROM turno.callbacks c WHERE c.job_id = p_job AND c.address_id IS NULL AND c.url LIKE 'http%';
END $$;
