-- Called by processes of the release before: have the end of a job told to this address.
CREATE OR REPLACE FUNCTION callback_put(p_job uuid, p_url text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM callbacks_put(p_job, ARRAY[p_url], NULL);
END $$;
