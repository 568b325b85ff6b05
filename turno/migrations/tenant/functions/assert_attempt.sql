-- The executor's BEGIN sets turno.attempt for its transaction only. Missing here, it says that
-- the handler ended that transaction itself, and that its writes were committed without the claim.
CREATE OR REPLACE FUNCTION assert_attempt(p_token uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF current_setting('turno.attempt', true) IS DISTINCT FROM p_token::text THEN
        RAISE EXCEPTION 'the handler ended the job''s transaction itself; leave commit and rollback to the executor'
            USING ERRCODE = 'TU002';
    END IF;
    PERFORM commit_durably();
END $$;
