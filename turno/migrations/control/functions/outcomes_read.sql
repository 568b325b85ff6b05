-- The outcomes of the next batches that this reader has not read. Batches become visible in the order of their commits. When
-- the reader has read all numbered batches, it numbers up to p_limit others, above every number that was read before. The locks
-- on the readers' rows last until the caller's transaction ends: calls number batches singly, and the caller's writes commit
-- with its position.
CREATE OR REPLACE FUNCTION outcomes_read(p_reader text, p_limit integer) RETURNS SETOF outcomes
LANGUAGE plpgsql AS $$
DECLARE
    next bigint;
BEGIN
    PERFORM FROM outcome_readers ORDER BY reader FOR UPDATE;
    SELECT min(b.position) INTO next
    FROM outcome_readers r JOIN outcome_batches b ON b.position > r.position WHERE r.reader = p_reader;
    IF next IS NULL THEN
        SELECT max(r.position) + 1 INTO next FROM outcome_readers r;
        UPDATE outcome_batches SET position = next
        WHERE ctid = ANY (ARRAY(SELECT ctid FROM outcome_batches WHERE position IS NULL ORDER BY at LIMIT p_limit));
    END IF;
    UPDATE outcome_readers SET position = next, read_at = clock_timestamp() WHERE reader = p_reader;
    RETURN QUERY SELECT * FROM outcomes o WHERE o.position = next;
END $$;
