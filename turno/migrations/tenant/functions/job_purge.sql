-- Remove ended jobs with all their history in batches, after the retention of their type, by default p_older_than. A
-- failed job stays as long as its dead letter is open. A job may outlive the job that it continues.
CREATE OR REPLACE FUNCTION job_purge(p_older_than interval, p_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    old uuid[];
    items bigint := 0;
    deleted bigint;
    -- Jobs with a longer retention come first in the index, and are skipped.
    soonest timestamptz := clock_timestamp()
        - least(p_older_than, (SELECT min(make_interval(days => t.retention_days)) FROM turno.job_types t));
BEGIN
    SELECT array_agg(id) INTO old FROM (
        SELECT j.id FROM background_jobs j
        WHERE j.finished_at < soonest AND j.finished_at < clock_timestamp() - coalesce(
              (SELECT make_interval(days => t.retention_days) FROM turno.job_types t WHERE t.type = j.type), p_older_than)
          -- Kept as long as the job that waited for it.
          AND NOT EXISTS (SELECT FROM background_jobs w WHERE w.id = j.awaited_by)
          AND NOT EXISTS (SELECT FROM background_jobs_dead_letter d
                          WHERE d.job_id = j.id AND d.replayed_at IS NULL AND d.discarded_at IS NULL)
        ORDER BY j.finished_at LIMIT p_limit
        FOR UPDATE SKIP LOCKED) AS batch;
    IF old IS NULL THEN
        RETURN 0;
    END IF;
    -- Ledgers differ by thousands: the batch ends where they have made it large, at one whole job at the earliest.
    FOR i IN 1 .. cardinality(old) LOOP
        DELETE FROM background_job_items WHERE job_id = old[i];
        GET DIAGNOSTICS deleted = ROW_COUNT;
        items := items + deleted;
        IF items >= 50000 THEN
            old := old[:i];
            EXIT;
        END IF;
    END LOOP;
    DELETE FROM background_job_attempt_rows WHERE job_id = ANY (old);
    DELETE FROM background_job_logs WHERE job_id = ANY (old);
    DELETE FROM background_job_progress_rows WHERE job_id = ANY (old);
    DELETE FROM background_job_checkpoints WHERE job_id = ANY (old);
    DELETE FROM background_job_event_rows WHERE job_id = ANY (old);
    DELETE FROM background_jobs_dead_letter WHERE job_id = ANY (old);
    DELETE FROM turno.dead_letters WHERE job_id = ANY (old);
    DELETE FROM notifications_of_reviews WHERE job_id = ANY (old);
    INSERT INTO background_job_keys (user_id, type, idempotency_key, job_id, payload_hash)
    SELECT j.user_id, j.type, j.idempotency_key, j.id, j.payload_hash FROM background_jobs j
    WHERE j.id = ANY (old) AND j.unique_while = 'for ever'
    ON CONFLICT DO NOTHING;
    DELETE FROM background_jobs WHERE id = ANY (old);
    RETURN cardinality(old);
END $$;
