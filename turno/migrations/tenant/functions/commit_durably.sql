-- The commit of a piece of work, an intent or an end is flushed to disk before it returns, independent of the handler's
-- settings: effects outside rely on it. Local to the transaction, so it holds at its COMMIT.
CREATE OR REPLACE FUNCTION commit_durably() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;
