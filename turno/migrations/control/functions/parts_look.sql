-- A part has ended: insert a row for the job that waits for it.
CREATE OR REPLACE FUNCTION part_left() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO part_looks (tenant_id, job_id, early) VALUES (OLD.tenant_id, OLD.awaited_by, false);
    RETURN NULL;
END $$;

-- Return the jobs to continue because all parts have ended, or early, for promote to make ready; their tickets are
-- locked. Of two parts that end at the same time, the later commit inserts a row that is read with a snapshot in which
-- both have ended; so does a job that begins to wait.
CREATE OR REPLACE FUNCTION parts_look() RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    joined uuid[];
    locked uuid[];
BEGIN
    WITH word AS (
        DELETE FROM part_looks WHERE ctid IN (
            SELECT l.ctid FROM part_looks l WHERE l.at <= clock_timestamp() ORDER BY l.at LIMIT 1000 FOR UPDATE SKIP LOCKED)
        RETURNING tenant_id, job_id, early
    )
    SELECT array_agg(DISTINCT w.job_id) INTO joined
    FROM word w JOIN tickets t ON t.job_id = w.job_id AND t.tenant_id = w.tenant_id
    WHERE w.early
       OR NOT EXISTS (SELECT FROM tickets p WHERE p.awaited_by = w.job_id AND p.tenant_id = w.tenant_id);
    IF joined IS NULL THEN
        RETURN '{}';
    END IF;
    locked := ARRAY(SELECT t.job_id FROM tickets t
                    WHERE t.job_id = ANY (joined) AND t.state = 'parts' FOR NO KEY UPDATE SKIP LOCKED);
    INSERT INTO part_looks (tenant_id, job_id, early)  -- another session is changing these tickets
    SELECT t.tenant_id, t.job_id, true FROM tickets t WHERE t.job_id = ANY (joined) AND t.state = 'parts'
      AND t.job_id <> ALL (locked);
    UPDATE tickets SET run_at = clock_timestamp() WHERE job_id = ANY (locked);
    RETURN locked;
END $$;
