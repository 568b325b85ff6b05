-- What code that enqueues by SQL need not know: of each type its version, queues, attempts and what holds for its keys, and
-- how many open jobs one user may have. p_other_queues are JSON arrays, in step. Told by whoever loads the handlers. What is
-- older than the version that is known changes nothing; p_all says that there are no other types any more.
CREATE OR REPLACE FUNCTION announce(
    p_types text[], p_versions smallint[], p_queues text[], p_max_attempts integer[], p_pending_limit integer,
    p_all boolean, p_other_queues jsonb[], p_keyed boolean[], p_key_limits integer[], p_key_rates integer[],
    p_key_periods double precision[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF p_all THEN
        DELETE FROM handlers WHERE type <> ALL (p_types);
    END IF;
    INSERT INTO handlers AS h (type, version, queue, max_attempts, pending_limit, other_queues, keyed, key_limit, key_rate,
                               key_period)
    SELECT type, version, queue, max_attempts, p_pending_limit, ARRAY(SELECT jsonb_array_elements_text(others)), keyed,
           key_limit, key_rate, key_period
    FROM unnest(p_types, p_versions, p_queues, p_max_attempts, p_other_queues, p_keyed, p_key_limits, p_key_rates,
                p_key_periods)
         AS t (type, version, queue, max_attempts, others, keyed, key_limit, key_rate, key_period)
    ORDER BY type
    ON CONFLICT (type) DO UPDATE
    SET version = excluded.version, queue = excluded.queue, max_attempts = excluded.max_attempts,
        pending_limit = excluded.pending_limit, other_queues = excluded.other_queues, keyed = excluded.keyed,
        key_limit = excluded.key_limit, key_rate = excluded.key_rate, key_period = excluded.key_period
    WHERE (excluded.version >= h.version OR p_all)
      AND (h.version, h.queue, h.max_attempts, h.pending_limit, h.other_queues, h.keyed, h.key_limit, h.key_rate,
           h.key_period)
          IS DISTINCT FROM (excluded.version, excluded.queue, excluded.max_attempts, excluded.pending_limit,
                            excluded.other_queues, excluded.keyed, excluded.key_limit, excluded.key_rate,
                            excluded.key_period);
END $$;
