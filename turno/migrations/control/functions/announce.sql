-- What code that enqueues by SQL need not know: of each type its version, queue and attempts, and how many open jobs one
-- user may have. Told by whoever loads the handlers. What is older than the version that is known changes nothing;
-- p_all says that there are no other types any more.
CREATE OR REPLACE FUNCTION announce(
    p_types text[], p_versions smallint[], p_queues text[], p_max_attempts integer[], p_pending_limit integer,
    p_all boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF p_all THEN
        DELETE FROM handlers WHERE type <> ALL (p_types);
    END IF;
    INSERT INTO handlers AS h (type, version, queue, max_attempts, pending_limit)
    SELECT type, version, queue, max_attempts, p_pending_limit
    FROM unnest(p_types, p_versions, p_queues, p_max_attempts) AS t (type, version, queue, max_attempts)
    ORDER BY type
    ON CONFLICT (type) DO UPDATE
    SET version = excluded.version, queue = excluded.queue, max_attempts = excluded.max_attempts,
        pending_limit = excluded.pending_limit
    WHERE (excluded.version >= h.version OR p_all)
      AND (h.version, h.queue, h.max_attempts, h.pending_limit)
          <> (excluded.version, excluded.queue, excluded.max_attempts, excluded.pending_limit);
END $$;
