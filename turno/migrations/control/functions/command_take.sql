-- Count a command of a user's, unless the user or the tenant has sent as many in a minute as allowed; 0 is no limit.
CREATE OR REPLACE FUNCTION command_take(p_tenant integer, p_user text, p_user_most bigint, p_tenant_most bigint,
                             OUT exceeded text, OUT retry_in double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
-- As long as every command waits for what others hold.
SET lock_timeout = '1s' AS $$
DECLARE
    cost double precision := rate_cost(1, p_user_most, 60);
    taken record;
BEGIN
    -- A crash of the server forgets the last of them, which gives somebody a few more: not worth a wait for the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    taken := rate_take(p_tenant, p_user, cost, 0, 0);
    IF taken.exceeded IS NOT NULL THEN
        exceeded := taken.exceeded || '_per_user';
    ELSE
        taken := rate_take(p_tenant, '', rate_cost(1, p_tenant_most, 60), 0, 0);
        IF taken.exceeded IS NOT NULL THEN
            exceeded := taken.exceeded || '_per_tenant';
            UPDATE rate_limits SET commands = commands - cost WHERE tenant_id = p_tenant AND user_id = p_user;
        END IF;
    END IF;
    retry_in := taken.retry_in;
END $$;
