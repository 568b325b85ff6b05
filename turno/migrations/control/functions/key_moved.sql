-- A ticket with a key has changed its state, or is gone. A start counts for its key's rate from now on; and whoever no
-- longer holds a place lets the next one have it, in this transaction; in an order, whoever leaves it in any state.
CREATE OR REPLACE FUNCTION key_moved() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.state = 'running' AND OLD.state <> 'running' THEN
            INSERT INTO key_looks (tenant_id, key, at, start)
            SELECT NEW.tenant_id, NEW.concurrency_key, clock_timestamp() + make_interval(secs => h.key_period), true
            FROM handlers h WHERE h.type = NEW.type AND h.key_rate IS NOT NULL;
        END IF;
        IF NEW.state IN ('ready', 'running') THEN
            RETURN NULL;
        END IF;
    END IF;
    IF OLD.state IN ('ready', 'running') OR TG_OP = 'DELETE' AND OLD.key_position IS NOT NULL THEN
        PERFORM key_look(OLD.tenant_id, OLD.concurrency_key);
    END IF;
    RETURN NULL;
END $$;

-- Look whether jobs of a key may run now. Where another session is looking, one of the two does not see what the other
-- changes: word is left, for whoever promotes next. So nobody waits for a key, and nobody deadlocks over two.
CREATE OR REPLACE FUNCTION key_look(p_tenant integer, p_key text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    -- With an older snapshot than the lock's, what another session admitted would not be seen.
    IF current_setting('transaction_isolation') = 'read committed' AND key_lock(p_tenant, p_key) THEN
        RETURN key_admit(p_tenant, p_key);
    END IF;
    INSERT INTO key_looks (tenant_id, key, at, start) VALUES (p_tenant, p_key, clock_timestamp(), false);
    RETURN 0;
END $$;

-- Whether this transaction is the one that admits jobs of a key, until it ends.
CREATE OR REPLACE FUNCTION key_lock(p_tenant integer, p_key text) RETURNS boolean LANGUAGE sql
RETURN pg_try_advisory_xact_lock(p_tenant, hashtext('key ' || p_key));

-- Make ready as many of a key's waiting jobs as have room; returns how many. The caller has the key's lock. A place is a ticket that is ready or running, so a crash cannot leave one taken; and of the
-- starts that a rate allows, each ticket that is ready has one in reserve.
CREATE OR REPLACE FUNCTION key_admit(p_tenant integer, p_key text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    admitted bigint := 0;
    here bigint;
    to_start bigint;
    started bigint;
    next record;
BEGIN
    DELETE FROM key_looks k WHERE k.tenant_id = p_tenant AND k.key = p_key AND k.at <= clock_timestamp();
    SELECT count(*), count(*) FILTER (WHERE t.state = 'ready') INTO here, to_start
    FROM tickets t WHERE t.tenant_id = p_tenant AND t.concurrency_key = p_key AND t.state IN ('ready', 'running');
    SELECT count(*) INTO started FROM key_looks k
    WHERE k.tenant_id = p_tenant AND k.key = p_key AND k.at > clock_timestamp() AND k.start;
    LOOP
        SELECT w.job_id, h.key_rate,
               CASE WHEN w.in_order THEN 1
                    WHEN h.key_rate IS NULL THEN coalesce(h.key_limit, 1) ELSE h.key_limit END AS key_limit INTO next
        FROM key_next(p_tenant, p_key) AS w LEFT JOIN handlers h ON h.type = w.type;
        EXIT WHEN NOT FOUND OR here >= next.key_limit OR to_start + started >= next.key_rate;
        PERFORM FROM tickets t WHERE t.job_id = next.job_id AND t.state = 'waiting' FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN  -- somebody changes it at this moment
            INSERT INTO key_looks (tenant_id, key, at, start) VALUES (p_tenant, p_key, clock_timestamp(), false);
            EXIT;
        END IF;
        UPDATE tickets SET state = 'ready' WHERE job_id = next.job_id;
        admitted := admitted + 1;
        here := here + 1;
        to_start := to_start + 1;
    END LOOP;
    RETURN admitted;
END $$;

-- Which of a key's waiting jobs is next: the best band first and the oldest in it. Of jobs in an order it is the first of
-- all, or nobody: the first may wait to be tried again, and one that failed for good is waited for until its dead letter
-- is replayed or discarded. Nobody goes while older events are still to be given to the subscriber.
CREATE OR REPLACE FUNCTION key_next(p_tenant integer, p_key text)
RETURNS TABLE (job_id uuid, type text, in_order boolean) LANGUAGE plpgsql AS $$
DECLARE
    first record;
BEGIN
    SELECT t.job_id, t.type, t.state, t.key_position INTO first FROM tickets t
    WHERE t.tenant_id = p_tenant AND t.concurrency_key = p_key AND t.key_position IS NOT NULL
    ORDER BY t.key_position, t.job_id LIMIT 1;
    IF NOT FOUND THEN
        RETURN QUERY
        SELECT w.job_id, w.type::text, false FROM unnest('{0,1,2}'::smallint[]) AS b (band) CROSS JOIN LATERAL (
            SELECT t.job_id, t.type FROM tickets t
            WHERE t.tenant_id = p_tenant AND t.concurrency_key = p_key AND t.state = 'waiting' AND t.priority = b.band
            ORDER BY t.run_at, t.job_id LIMIT 1) AS w
        ORDER BY b.band LIMIT 1;
    ELSIF first.state = 'waiting' AND NOT EXISTS (
        SELECT FROM dead_letters d
        WHERE d.tenant_id = p_tenant AND d.concurrency_key = p_key AND d.closed_at IS NULL
          AND d.key_position < first.key_position) AND NOT EXISTS (
        SELECT FROM subscriptions s WHERE s.type = first.type AND s.ordered AND s.backlog) THEN
        RETURN QUERY SELECT first.job_id, first.type::text, true;
    END IF;
END $$;

-- A dead letter was replayed or discarded: those behind it may go on.
CREATE OR REPLACE FUNCTION key_unblocked() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM key_look(NEW.tenant_id, NEW.concurrency_key);
    RETURN NULL;
END $$;

-- Look at the keys whose time for it has come, at most so many; returns how many jobs became ready.
CREATE OR REPLACE FUNCTION keys_look(p_limit integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    admitted bigint := 0;
    one record;
BEGIN
    FOR one IN SELECT DISTINCT k.tenant_id, k.key FROM (SELECT l.tenant_id, l.key FROM key_looks l
                                                       WHERE l.at <= clock_timestamp() ORDER BY l.at LIMIT 1000) AS k
               LIMIT p_limit LOOP
        IF key_lock(one.tenant_id, one.key) THEN
            admitted := admitted + key_admit(one.tenant_id, one.key);
        END IF;
    END LOOP;
    RETURN admitted;
END $$;
