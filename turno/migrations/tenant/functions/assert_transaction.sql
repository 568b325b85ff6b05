-- Before a commit of the executor: raises in any transaction that the executor did not begin. SQL of a handler cannot
-- choose the start of a transaction, so this detects a COMMIT or ROLLBACK by the handler.
CREATE OR REPLACE FUNCTION assert_transaction(p_started timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF p_started IS DISTINCT FROM transaction_timestamp() THEN
        RAISE EXCEPTION 'the handler ended the job''s transaction itself; leave commit and rollback to the executor'
            USING ERRCODE = 'TU002';
    END IF;
    PERFORM commit_durably();
END $$;
