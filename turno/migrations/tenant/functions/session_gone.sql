-- Raises unless the session that works on an attempt has ended; waits 15 seconds for that. A network without answers ends a
-- session after 12.
CREATE OR REPLACE FUNCTION session_gone(p_pid integer, p_start timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp() + interval '15 s';
BEGIN
    WHILE EXISTS (SELECT FROM pg_stat_get_activity(p_pid) AS s WHERE s.backend_start = p_start) LOOP
        IF clock_timestamp() > until THEN
            RAISE EXCEPTION 'another session works on this attempt; only that session may end it' USING ERRCODE = 'TU013';
        END IF;
        PERFORM pg_sleep(0.02), pg_stat_clear_snapshot();
    END LOOP;
END $$;
