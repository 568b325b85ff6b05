CREATE OR REPLACE FUNCTION worker_start(
    p_backend text, p_host text, p_pid integer, p_queues text[], p_types text[], p_versions smallint[]) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    worker uuid;
BEGIN
    INSERT INTO workers (backend, host, pid, queues, types, versions)
    VALUES (p_backend, p_host, p_pid, p_queues, p_types, p_versions) RETURNING id INTO worker;
    IF p_backend = 'exec' AND p_types <> '{}' THEN
        INSERT INTO exec_hosts (host, types, versions, seen_at) VALUES (p_host, p_types, p_versions, clock_timestamp())
        ON CONFLICT (host) DO UPDATE
        SET types = excluded.types, versions = excluded.versions, seen_at = excluded.seen_at
        -- Many workers start at once: only a change, or an old row, is written.
        WHERE exec_hosts.seen_at < excluded.seen_at - interval '1 hour'
           OR (exec_hosts.types, exec_hosts.versions) <> (excluded.types, excluded.versions);
    END IF;
    RETURN worker;
END $$;
