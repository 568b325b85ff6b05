-- A part has ended, or is gone: word is left for the job that waits for it.
CREATE OR REPLACE FUNCTION part_left() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO part_looks (tenant_id, job_id, early) VALUES (OLD.tenant_id, OLD.awaited_by, false);
    RETURN NULL;
END $$;

-- Let those run whose parts have all ended; returns how many. Of two parts that end at once, the one that commits last
-- leaves word that is read with a snapshot in which both have ended; so does a job that begins to wait.
CREATE OR REPLACE FUNCTION parts_look() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    waiting uuid[];
    here uuid[];
BEGIN
    WITH word AS (
        DELETE FROM part_looks WHERE ctid IN (
            SELECT l.ctid FROM part_looks l WHERE l.at <= clock_timestamp() ORDER BY l.at LIMIT 1000 FOR UPDATE SKIP LOCKED)
        RETURNING tenant_id, job_id, early
    )
    SELECT array_agg(DISTINCT w.job_id) INTO waiting
    FROM word w JOIN tickets t ON t.job_id = w.job_id AND t.tenant_id = w.tenant_id
    WHERE w.early
       OR NOT EXISTS (SELECT FROM tickets p WHERE p.awaited_by = w.job_id AND p.tenant_id = w.tenant_id);
    IF waiting IS NULL THEN
        RETURN 0;
    END IF;
    here := ARRAY(SELECT t.job_id FROM tickets t WHERE t.job_id = ANY (waiting) FOR NO KEY UPDATE SKIP LOCKED);
    INSERT INTO part_looks (tenant_id, job_id, early)  -- somebody changes these at this moment
    SELECT t.tenant_id, t.job_id, true FROM tickets t WHERE t.job_id = ANY (waiting) AND t.job_id <> ALL (here);
    UPDATE tickets SET run_at = clock_timestamp()
    WHERE job_id = ANY (here) AND state = 'scheduled' AND run_at = 'infinity';
    RETURN make_ready(ARRAY(SELECT t.job_id FROM tickets t
                            WHERE t.job_id = ANY (here) AND t.state = 'scheduled' AND t.run_at <= clock_timestamp()));
END $$;
