-- A ticket with a key has changed its state or was deleted. A start counts against the rate of the key; a ticket that frees a
-- slot of the key admits the next job in the same transaction, as does a deleted ticket of an order in any state, or a dead
-- letter that was replayed or discarded.
CREATE OR REPLACE FUNCTION key_moved() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    IF TG_TABLE_NAME = 'dead_letters' THEN
        PERFORM key_look(NEW.tenant_id, NEW.concurrency_key);
        RETURN NULL;
    ELSIF TG_OP = 'UPDATE' THEN
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

-- Admit jobs of a key in the caller's transaction, which may be a tenant's. If another transaction is admitting jobs of
-- the key, neither sees the changes of its peer: a row for promote is inserted instead, so no transaction waits for a
-- key.
CREATE OR REPLACE FUNCTION key_look(p_tenant integer, p_key text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    -- A snapshot from before the lock would not show the jobs that another session admitted.
    IF current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM FROM key_locks k WHERE k.tenant_id = p_tenant AND k.key = p_key FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            RETURN key_admit(p_tenant, p_key);
        END IF;
    END IF;
    INSERT INTO key_looks (tenant_id, key, at, start) VALUES (p_tenant, p_key, clock_timestamp(), false);
    RETURN 0;
END $$;

-- Make as many waiting jobs of a key ready as its limit and rate allow; returns how many. The caller has locked the key's row.
-- Ready and running tickets count against the limit, so a crash cannot leave a slot occupied; each ready ticket also reserves
-- a start of the rate. The next job is the one of the highest priority, then the oldest. Of jobs in an order it is the first of
-- all states: no job follows a job that waits for its retry, or that failed for good until its dead letter is replayed or
-- discarded.
CREATE OR REPLACE FUNCTION key_admit(p_tenant integer, p_key text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    admitted bigint := 0;
    occupied bigint;
    to_start bigint;
    started bigint;
    next record;
    in_order boolean;
    own handlers;
BEGIN
    DELETE FROM key_looks k WHERE k.tenant_id = p_tenant AND k.key = p_key AND k.at <= clock_timestamp();
    SELECT count(*), count(*) FILTER (WHERE t.state = 'ready') INTO occupied, to_start
    FROM tickets t WHERE t.tenant_id = p_tenant AND t.concurrency_key = p_key AND t.state IN ('ready', 'running');
    SELECT count(*) INTO started FROM key_looks k
    WHERE k.tenant_id = p_tenant AND k.key = p_key AND k.at > clock_timestamp() AND k.start;
    LOOP
        SELECT t.job_id, t.type, t.state, t.key_position INTO next FROM tickets t
        WHERE t.tenant_id = p_tenant AND t.concurrency_key = p_key AND t.key_position IS NOT NULL
        ORDER BY t.key_position, t.job_id LIMIT 1;
        in_order := FOUND;
        IF NOT in_order THEN
            SELECT w.* INTO next FROM unnest('{0,1,2}'::smallint[]) AS b (band) CROSS JOIN LATERAL (
                SELECT t.job_id, t.type, t.state, t.key_position FROM tickets t
                WHERE t.tenant_id = p_tenant AND t.concurrency_key = p_key AND t.state = 'waiting' AND t.priority = b.band
                ORDER BY t.run_at, t.job_id LIMIT 1) AS w
            ORDER BY b.band LIMIT 1;
            EXIT WHEN NOT FOUND;
        END IF;
        EXIT WHEN next.state <> 'waiting';
        EXIT WHEN in_order AND EXISTS (
            SELECT FROM dead_letters d
            WHERE d.tenant_id = p_tenant AND d.concurrency_key = p_key AND d.closed_at IS NULL
              AND d.key_position < next.key_position);
        SELECT * INTO own FROM handlers h WHERE h.type = next.type;
        EXIT WHEN occupied >= CASE WHEN in_order THEN 1
                                   WHEN own.key_rate IS NULL THEN coalesce(own.key_limit, 1) ELSE own.key_limit END
               OR to_start + started >= own.key_rate;
        PERFORM FROM tickets t WHERE t.job_id = next.job_id AND t.state = 'waiting' FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN  -- another session is changing the ticket
            INSERT INTO key_looks (tenant_id, key, at, start) VALUES (p_tenant, p_key, clock_timestamp(), false);
            EXIT;
        END IF;
        UPDATE tickets SET state = 'ready' WHERE job_id = next.job_id;
        admitted := admitted + 1;
        occupied := occupied + 1;
        to_start := to_start + 1;
    END LOOP;
    RETURN admitted;
END $$;
