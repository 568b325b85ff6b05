-- The tenants that a task runs for in this turn, in order: active, among p_among unless that is null, and not in back-off.
-- A turn continues behind the tenant of the last turn that was cut. With a period, a round over all tenants begins p_every
-- after the last round began, and the turns of a round contain each tenant once.
CREATE OR REPLACE FUNCTION tenant_turns(p_task text, p_every interval, p_among integer[])
RETURNS TABLE (tenant_id integer, slug text, schema text, failures integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    present timestamptz := clock_timestamp();
    own tenant_tasks;
BEGIN
    SELECT * INTO own FROM tenant_tasks t WHERE t.task = p_task;
    IF coalesce(own.position, 0) = 0 AND p_every > '0' THEN
        -- A begin in the future is from before the server's clock was set back.
        IF own.begun_at BETWEEN present - p_every AND present THEN
            RETURN;
        END IF;
        INSERT INTO tenant_tasks AS t (task, begun_at) VALUES (p_task, present)
        ON CONFLICT (task) DO UPDATE SET begun_at = excluded.begun_at;
    END IF;
    RETURN QUERY
    SELECT n.id, n.slug, n.schema, coalesce(f.failures, 0)
    FROM tenants n LEFT JOIN tenant_failures f ON f.task = p_task AND f.tenant_id = n.id
    WHERE n.state = 'active' AND (p_among IS NULL OR n.id = ANY (p_among))
      AND (f.retry_at IS NULL OR f.retry_at NOT BETWEEN present AND present + interval '1 day')
      AND (p_every = '0' OR n.id > coalesce(own.position, 0))
    ORDER BY n.id <= coalesce(own.position, 0), n.id;
END $$;

-- Move a task's position to the next tenant, or to 0 at the end of a round. The position moves before the tenant's
-- work: a tenant that ends the process does not come first again.
CREATE OR REPLACE FUNCTION tenant_turn_begin(p_task text, p_tenant integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    -- A position lost with the server repeats some tenants' turns.
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO tenant_tasks AS t (task, position, begun_at) VALUES (p_task, p_tenant, clock_timestamp())
    ON CONFLICT (task) DO UPDATE SET position = excluded.position WHERE t.position <> excluded.position;
END $$;

-- Record the end of a tenant's turn: after an error the next turn comes after p_first, doubled with each failure up to
-- p_longest; without an error the record of earlier failures is deleted.
CREATE OR REPLACE FUNCTION tenant_turn_end(
    p_task text, p_tenant integer, p_error text, p_first interval, p_longest interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    present timestamptz := clock_timestamp();
BEGIN
    DELETE FROM tenant_failures WHERE p_error IS NULL AND task = p_task AND tenant_id = p_tenant;
    INSERT INTO tenant_failures AS f (task, tenant_id, failures, error, since, retry_at)
    SELECT p_task, n.id, 1, left(p_error, 1000), present, present + least(p_first, p_longest)
    FROM tenants n WHERE p_error IS NOT NULL AND n.id = p_tenant AND n.state = 'active'
    ON CONFLICT (task, tenant_id) DO UPDATE
    SET failures = f.failures + 1, error = excluded.error,
        retry_at = present + least(p_first * 2 ^ least(f.failures, 20), p_longest);
END $$;
