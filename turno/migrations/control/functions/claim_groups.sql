-- What a turn takes beside its first ticket: more of the same lane and tenant, from that ticket on. It may not
-- step over what is taken before it, or it would walk over everything that has ended there.
CREATE OR REPLACE FUNCTION take_more(p_worker uuid, p_first uuid, p_most integer) RETURNS SETOF tickets
LANGUAGE plpgsql AS $$
DECLARE
    head tickets;
    room bigint := p_most;
BEGIN
    SELECT * INTO head FROM tickets WHERE job_id = p_first;
    IF head.crashes > 0 THEN
        RETURN;
    END IF;
    IF (SELECT cap IS NOT NULL FROM tenants WHERE id = head.tenant_id) THEN
        room := least(room, tenant_room(head.tenant_id));
    END IF;
    IF (SELECT cap IS NOT NULL FROM job_types WHERE type = head.type) THEN
        room := least(room, type_room(head.type));
    END IF;
    IF room <= 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
        WITH taken AS (
            UPDATE tickets t
            SET state = 'running', worker_id = p_worker, token = gen_random_uuid(), attempt = t.attempt + 1
            WHERE t.job_id = ANY (ARRAY(
                SELECT r.job_id FROM tickets r
                WHERE r.state = 'ready' AND r.backend = head.backend AND r.queue = head.queue
                  AND r.type = head.type AND r.version = head.version AND r.tenant_id = head.tenant_id
                  AND (r.priority, r.run_at, r.job_id) > (head.priority, head.run_at, head.job_id)
                  AND r.crashes = 0
                ORDER BY r.priority, r.run_at, r.job_id LIMIT room
                FOR UPDATE SKIP LOCKED))
            RETURNING t.*)
        SELECT * FROM taken ORDER BY priority, run_at, job_id;
END $$;

-- `claim`, where each of the turns taken may bring more tickets of its type along: up to p_groups of them,
-- in step with p_types. Rows with the same turn are one group.
CREATE OR REPLACE FUNCTION claim_groups(
    p_worker uuid, p_queues text[], p_types text[], p_versions smallint[], p_groups integer[], p_backend text,
    p_slots integer, p_without text[])
RETURNS TABLE (turn integer, job_id uuid, token uuid, attempt integer, type text, version smallint,
               tenant_id integer, slug text, schema text, handler_role text, login_epoch integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    first claimed;
    size integer;
BEGIN
    -- A claim may be lost with the server: what would know of it are sessions, and they are lost with it.
    PERFORM set_config('synchronous_commit', 'off', true);
    turn := 0;
    FOR first IN SELECT * FROM claim(p_worker, p_queues, p_types, p_versions, p_backend, p_slots, p_without) LOOP
        turn := turn + 1;
        RETURN QUERY SELECT turn, first.*;
        size := p_groups[array_position(p_types, first.type)];
        IF size > 1 THEN
            RETURN QUERY
                SELECT turn, m.job_id, m.token, m.attempt, m.type::text, m.version,
                       first.tenant_id, first.slug, first.schema, first.handler_role, first.login_epoch
                FROM take_more(p_worker, first.job_id, size - 1) AS m;
        END IF;
    END LOOP;
END $$;
