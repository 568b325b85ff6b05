-- The state of a ticket that waits for its time: only promote makes a ticket with a concurrency key ready.
CREATE OR REPLACE FUNCTION due_state(p_run_at timestamptz, p_concurrency_key text) RETURNS text LANGUAGE sql VOLATILE
RETURN CASE WHEN p_run_at = 'infinity' THEN 'review'
            WHEN p_run_at > clock_timestamp() OR p_concurrency_key IS NOT NULL THEN 'scheduled' ELSE 'ready' END;
