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
