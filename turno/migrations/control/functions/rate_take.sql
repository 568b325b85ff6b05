-- Count a request against the limits of a user, of a type and of a tenant, or against none of them if one has too little left:
-- `exceeded` is the name of that limit, and `retry_in` the seconds until it has enough. All limits of a call have the period
-- p_seconds. p_limits has the values of the settings by the names of the limits; 0 and an absent name are no limit. The limits
-- of jobs count p_jobs and p_bytes; commands and mails are counted one by one. An amount above a limit uses all of it. This is
-- the generic cell rate algorithm: a limit may be used at once, and is earned back evenly.
CREATE OR REPLACE FUNCTION rate_take(
    p_tenant integer, p_user text, p_seconds integer, p_limits jsonb, p_type text DEFAULT NULL, p_jobs bigint DEFAULT 0,
    p_bytes bigint DEFAULT 0, OUT exceeded text, OUT retry_in double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
-- Otherwise the server plans the statements for each length of the arrays anew, at every call.
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    at double precision;
    names text[];
    subjects text[];
    costs double precision[];  -- seconds
    taken text[];
    full_subject text;
BEGIN
    SELECT array_agg(l.name), array_agg(l.subject), array_agg(p_seconds * least(l.amount, l.most)::double precision / l.most)
    INTO names, subjects, costs
    FROM (VALUES
        ('commands_per_minute_per_user', p_user, 1, (p_limits ->> 'commands_per_minute_per_user')::bigint),
        ('mails_per_day_per_user', p_user, 1, (p_limits ->> 'mails_per_day_per_user')::bigint),
        ('jobs_per_day_per_user', p_user, p_jobs, (p_limits ->> 'jobs_per_day_per_user')::bigint),
        ('payload_mb_per_day_per_user', p_user, p_bytes, (p_limits ->> 'payload_mb_per_day_per_user')::bigint * 1048576),
        ('jobs_per_day_per_type', p_type, p_jobs, (SELECT t.jobs_per_day FROM job_types t WHERE t.type = p_type)),
        ('commands_per_minute_per_tenant', '', 1, (p_limits ->> 'commands_per_minute_per_tenant')::bigint),
        -- The limit that operators set for this tenant replaces that of the settings.
        ('jobs_per_day_per_tenant', '', p_jobs,
         coalesce((SELECT n.jobs_per_day FROM tenants n WHERE n.id = p_tenant),
                  (p_limits ->> 'jobs_per_day_per_tenant')::bigint)),
        ('payload_mb_per_day_per_tenant', '', p_bytes, (p_limits ->> 'payload_mb_per_day_per_tenant')::bigint * 1048576)
    ) AS l (name, subject, amount, most)
    WHERE l.amount > 0 AND l.most > 0;
    IF names IS NULL THEN
        RETURN;
    END IF;
    IF p_jobs = 0 THEN
        -- A transaction without jobs. A crash of the server loses its last counts, which gives a user a few more requests.
        PERFORM set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '1s', true);
    END IF;
    LOOP
        at := extract(epoch FROM clock_timestamp());
        -- A refusal writes nothing, so a flood of one user does not lock the row of the tenant. The LIMIT keeps the planner
        -- from joining the whole table.
        SELECT u.name, u.subject, greatest(r.empty_at, at) + u.cost - at - p_seconds AS wait
        INTO exceeded, full_subject, retry_in
        FROM unnest(names, subjects, costs) AS u (name, subject, cost)
        CROSS JOIN LATERAL (SELECT l.empty_at FROM rate_limits l
                            WHERE l.tenant_id = p_tenant AND l.name = u.name AND l.subject = u.subject LIMIT 1) AS r
        -- A millisecond that rounding may have cost.
        WHERE greatest(r.empty_at, at) + u.cost - at - p_seconds >= 0.001
        ORDER BY wait DESC LIMIT 1;
        IF exceeded IS NOT NULL THEN
            -- More than the whole limit is in use after the clock was set back; the excess would block for as long.
            UPDATE rate_limits l SET empty_at = at + p_seconds
            WHERE l.tenant_id = p_tenant AND l.name = exceeded AND l.subject = full_subject
              AND l.empty_at >= at + p_seconds + 0.001;
            CONTINUE WHEN FOUND;
            RETURN;
        END IF;
        WITH used AS (
            INSERT INTO rate_limits AS l (tenant_id, name, subject, empty_at)
            SELECT p_tenant, u.name, u.subject, at + u.cost
            FROM unnest(names, subjects, costs) AS u (name, subject, cost)
            ON CONFLICT (tenant_id, name, subject)
            DO UPDATE SET empty_at = greatest(l.empty_at, at) + excluded.empty_at - at
            WHERE greatest(l.empty_at, at) + excluded.empty_at - at < at + p_seconds + 0.001
            RETURNING l.name
        )
        SELECT array_agg(name) INTO taken FROM used;
        EXIT WHEN cardinality(taken) = cardinality(names);
        -- A concurrent transaction used the rest of a limit since the query above.
        FOR i IN 1 .. cardinality(names) LOOP
            UPDATE rate_limits l SET empty_at = l.empty_at - costs[i]
            WHERE l.tenant_id = p_tenant AND l.name = names[i] AND l.subject = subjects[i] AND names[i] = ANY (taken);
        END LOOP;
    END LOOP;
END $$;
