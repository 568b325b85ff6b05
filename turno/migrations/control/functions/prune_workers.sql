-- A worker that was silent for too long is taken off the list. Its tickets then belong to
-- no worker, and `orphans` finds them, now or after a crash of the caller.
-- Silence counts only while a process swept: during an outage of the database all workers were silent.
CREATE OR REPLACE FUNCTION prune_workers(p_silent_for interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    listened_since timestamptz := (SELECT since FROM leases WHERE name = 'sweep');
    pruned bigint;
BEGIN
    -- A heartbeat in the future is from before the server's clock was set back.
    UPDATE workers SET alive_at = clock_timestamp() WHERE alive_at > clock_timestamp();
    DELETE FROM workers WHERE greatest(alive_at, listened_since) < clock_timestamp() - p_silent_for;
    GET DIAGNOSTICS pruned = ROW_COUNT;
    DELETE FROM exec_hosts WHERE seen_at < clock_timestamp() - interval '7 days';
    RETURN pruned;
END $$;
