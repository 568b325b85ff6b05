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
