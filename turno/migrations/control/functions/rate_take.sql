-- Use up so many seconds of what a user, or with '' a whole tenant, may ask for: of its minute of commands, its day of
-- jobs and its day of payloads; or of none of them if one has less left. Then that one is named, with the seconds until
-- it has enough. This is the generic cell rate algorithm: all of a limit may be used at once, and is earned back evenly.
CREATE OR REPLACE FUNCTION rate_take(p_tenant integer, p_user text, p_commands double precision, p_jobs double precision,
                          p_payload double precision, OUT exceeded text, OUT retry_in double precision)
LANGUAGE plpgsql AS $$
DECLARE
    at double precision;
BEGIN
    IF p_commands + p_jobs + p_payload = 0 THEN
        RETURN;
    END IF;
    LOOP
        at := extract(epoch FROM clock_timestamp());
        UPDATE rate_limits
        SET commands = greatest(commands, at) + p_commands, jobs = greatest(jobs, at) + p_jobs,
            payload = greatest(payload, at) + p_payload
        WHERE tenant_id = p_tenant AND user_id = p_user
          -- A thousandth more, which rounding may have cost.
          AND greatest(commands, at) + p_commands < at + 60.001
          AND greatest(jobs, at) + p_jobs < at + 86400.001
          AND greatest(payload, at) + p_payload < at + 86400.001;
        EXIT WHEN FOUND;
        -- Nobody can have used more than all: the clock was put back, and would shut them out for as long.
        UPDATE rate_limits
        SET commands = least(commands, at + 60), jobs = least(jobs, at + 86400), payload = least(payload, at + 86400)
        WHERE tenant_id = p_tenant AND user_id = p_user
          AND (commands >= at + 60.001 OR jobs >= at + 86400.001 OR payload >= at + 86400.001);
        CONTINUE WHEN FOUND;
        SELECT l.name, l.wait INTO exceeded, retry_in
        FROM rate_limits r CROSS JOIN LATERAL (VALUES
            ('commands_per_minute', greatest(r.commands, at) + p_commands - at - 60),
            ('jobs_per_day', greatest(r.jobs, at) + p_jobs - at - 86400),
            ('payload_mb_per_day', greatest(r.payload, at) + p_payload - at - 86400)) AS l (name, wait)
        WHERE r.tenant_id = p_tenant AND r.user_id = p_user AND l.wait >= 0.001
        ORDER BY l.wait DESC LIMIT 1;
        EXIT WHEN FOUND;
        INSERT INTO rate_limits (tenant_id, user_id) VALUES (p_tenant, p_user) ON CONFLICT DO NOTHING;
    END LOOP;
END $$;

-- For how many seconds an amount uses up a limit of p_most in p_seconds; 0 is no limit. What is more than the whole
-- limit uses up all of it.
CREATE OR REPLACE FUNCTION rate_cost(p_amount bigint, p_most bigint, p_seconds double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT CASE WHEN p_most > 0 THEN p_seconds * least(p_amount, p_most) / p_most ELSE 0 END;
END;
