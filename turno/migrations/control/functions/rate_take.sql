-- Count a request against the limits of a user, of a type and of a tenant, or against none of them if one has too
-- little left: `exceeded` is the name of that limit, and `retry_in` the seconds until it has enough. All limits of a
-- call have the period p_seconds. p_limits has the values of the settings by the names of the limits; 0 and an absent
-- name are no limit. The limits of jobs count p_jobs and p_bytes; commands and mails are counted one by one. An amount
-- above a limit uses the whole limit. This is the generic cell rate algorithm: a limit may be used at once, and is
-- earned back evenly.
CREATE OR REPLACE FUNCTION rate_take(
    p_tenant integer, p_user text, p_seconds integer, p_limits jsonb, p_type text DEFAULT NULL, p_jobs bigint DEFAULT 0,
    p_bytes bigint DEFAULT 0, OUT exceeded text, OUT retry_in double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = '1s'
-- Otherwise the server repeats the planning of each statement at the first five calls of each session.
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    -- Limits of users first: a flood of one user then does not lock the rows of the tenant.
    limits CONSTANT text[] := CASE p_jobs
        WHEN 0 THEN '{commands_per_minute_per_user,mails_per_day_per_user,commands_per_minute_per_tenant}'::text[]
        ELSE '{jobs_per_day_per_user,payload_mb_per_day_per_user,jobs_per_day_per_type,jobs_per_day_per_tenant,
               payload_mb_per_day_per_tenant}'::text[] END;
    at double precision := extract(epoch FROM clock_timestamp());
    of_limit text;
    of_subject text;
    most bigint;
    amount bigint;
    cost double precision;  -- seconds
    before double precision;
    taken text[] := '{}';
    costs double precision[] := '{}';
BEGIN
    FOREACH of_limit IN ARRAY limits LOOP
        most := p_limits ->> of_limit;
        amount := greatest(p_jobs, 1);
        IF p_jobs = 0 THEN
            NULL;  -- commands and mails are counted one by one
        ELSIF of_limit = 'jobs_per_day_per_type' THEN
            SELECT t.jobs_per_day INTO most FROM job_types t WHERE t.type = p_type;
        ELSIF of_limit = 'jobs_per_day_per_tenant' THEN
            -- The limit that operators set for this tenant replaces that of the settings.
            SELECT coalesce(n.jobs_per_day, most) INTO most FROM tenants n WHERE n.id = p_tenant;
        ELSIF of_limit LIKE 'payload%' THEN
            most := most * 1048576;
            amount := p_bytes;
        END IF;
        CONTINUE WHEN coalesce(most, 0) = 0 OR amount = 0;
        of_subject := CASE WHEN of_limit LIKE '%_user' THEN p_user WHEN of_limit LIKE '%_type' THEN p_type ELSE '' END;
        cost := p_seconds * least(amount, most)::double precision / most;
        LOOP
            UPDATE rate_limits l SET empty_at = greatest(l.empty_at, at) + cost
            WHERE l.tenant_id = p_tenant AND l.name = of_limit AND l.subject = of_subject
              -- A millisecond more, which rounding may have cost.
              AND greatest(l.empty_at, at) + cost < at + p_seconds + 0.001;
            EXIT WHEN FOUND;
            SELECT l.empty_at INTO before FROM rate_limits l
            WHERE l.tenant_id = p_tenant AND l.name = of_limit AND l.subject = of_subject;
            IF NOT FOUND THEN
                INSERT INTO rate_limits VALUES (p_tenant, of_limit, of_subject, at) ON CONFLICT DO NOTHING;
            ELSIF before >= at + p_seconds + 0.001 THEN
                -- More than the whole limit is in use after the clock was set back; the excess would block for as long.
                UPDATE rate_limits l SET empty_at = least(l.empty_at, at + p_seconds)
                WHERE l.tenant_id = p_tenant AND l.name = of_limit AND l.subject = of_subject;
            ELSIF before + cost >= at + p_seconds + 0.001 THEN
                exceeded := of_limit;
                retry_in := before + cost - at - p_seconds;
                FOR i IN 1 .. cardinality(taken) LOOP
                    UPDATE rate_limits l SET empty_at = l.empty_at - costs[i]
                    WHERE l.tenant_id = p_tenant AND l.name = taken[i]
                      AND l.subject = CASE WHEN taken[i] LIKE '%_user' THEN p_user
                                           WHEN taken[i] LIKE '%_type' THEN p_type ELSE '' END;
                END LOOP;
                RETURN;
            END IF;
        END LOOP;
        taken := taken || of_limit;
        costs := costs || cost;
    END LOOP;
END $$;

-- A new limit of a tenant or a type begins unused: the used part was measured by the old limit.
CREATE OR REPLACE FUNCTION quota_reset() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_TABLE_NAME = 'tenants' THEN
        DELETE FROM rate_limits WHERE tenant_id = NEW.id AND name = 'jobs_per_day_per_tenant';
    ELSE
        DELETE FROM rate_limits WHERE name = 'jobs_per_day_per_type' AND subject = NEW.type;
    END IF;
    RETURN NULL;
END $$;
