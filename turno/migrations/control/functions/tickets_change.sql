-- Give these tickets their p_backends, in step, or with NULL let them run; returns how many tickets changed. A ticket that the
-- database refuses delays no other ticket: it is set aside in the state `review` until a person has checked it, and the worker
-- logs the warning. Only the content of the row counts as refused, not a lock or a full disk.
CREATE OR REPLACE FUNCTION tickets_change(p_jobs uuid[], p_backends text[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    changed bigint;
    why text;
BEGIN
    BEGIN
        IF p_backends IS NULL THEN
            RETURN let_run(p_jobs);
        END IF;
        UPDATE tickets t SET backend = s.backend, published_at = NULL
        FROM unnest(p_jobs, p_backends) AS s (job_id, backend) WHERE t.job_id = s.job_id;
        GET DIAGNOSTICS changed = ROW_COUNT;
        RETURN changed;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        why := SQLERRM;
    END;
    IF cardinality(p_jobs) > 1 THEN  -- each ticket alone
        RETURN (SELECT sum(tickets_change(p_jobs[i:i], p_backends[i:i])) FROM generate_subscripts(p_jobs, 1) AS i);
    END IF;
    BEGIN
        UPDATE tickets SET state = 'review', run_at = 'infinity', published_at = NULL WHERE job_id = p_jobs[1];
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        why := why || '; it cannot be set aside either';
    END;
    RAISE WARNING 'job % of % was set aside, its ticket is refused: %', p_jobs[1],
        (SELECT n.slug FROM tickets t JOIN tenants n ON n.id = t.tenant_id WHERE t.job_id = p_jobs[1]), why;
    RETURN 0;
END $$;

-- Make these tickets ready, or waiting if they have a key; returns how many.
CREATE OR REPLACE FUNCTION let_run(p_jobs uuid[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    let bigint;
BEGIN
    WITH made AS (
        UPDATE tickets SET state = CASE WHEN concurrency_key IS NULL THEN 'ready' ELSE 'waiting' END
        WHERE job_id = ANY (p_jobs)
        RETURNING tenant_id, concurrency_key
    ), keys AS (
        SELECT DISTINCT m.tenant_id, m.concurrency_key AS key FROM made m WHERE m.concurrency_key IS NOT NULL
    ), locks AS (  -- in one order, because another promote that inserts the same key waits
        INSERT INTO key_locks (tenant_id, key) SELECT k.tenant_id, k.key FROM keys k ORDER BY 1, 2 ON CONFLICT DO NOTHING
    ), looks AS (
        INSERT INTO key_looks (tenant_id, key, at, start) SELECT k.tenant_id, k.key, clock_timestamp(), false FROM keys k
    )
    SELECT count(*) INTO let FROM made;
    RETURN let;
END $$;
