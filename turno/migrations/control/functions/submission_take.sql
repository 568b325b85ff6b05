-- Count new jobs and the bytes of their payloads, unless a daily limit of their user, of the tenant, or of the tenant's jobs
-- of their type is reached. p_limits: jobs of a user and of the tenant, bytes of a user and of the tenant; 0 is no limit. Only
-- an operator limits a type.
CREATE OR REPLACE FUNCTION submission_take(
    p_tenant integer, p_user text, p_type text, p_jobs bigint, p_bytes bigint, p_limits bigint[],
    OUT exceeded text, OUT retry_in double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    of_jobs double precision := rate_cost(p_jobs, p_limits[1], 86400);
    of_payload double precision := rate_cost(p_bytes, p_limits[3], 86400);
    of_tenant bigint;
    of_type bigint;
    taken record;
BEGIN
    taken := rate_take(p_tenant, p_user, 0, of_jobs, of_payload);
    IF taken.exceeded IS NOT NULL THEN
        exceeded := taken.exceeded || '_per_user';
        retry_in := taken.retry_in;
        RETURN;
    END IF;
    SELECT t.jobs_per_day INTO of_type FROM job_types t WHERE t.type = p_type;
    taken := rate_take(p_tenant, E'\x01' || p_type, 0, rate_cost(p_jobs, of_type, 86400), 0);
    IF taken.exceeded IS NOT NULL THEN
        exceeded := taken.exceeded || '_per_type';
    ELSE
        -- An operator's limit for this tenant comes before everybody's.
        SELECT coalesce(n.jobs_per_day, p_limits[2]) INTO of_tenant FROM tenants n WHERE n.id = p_tenant;
        taken := rate_take(p_tenant, '', 0, rate_cost(p_jobs, of_tenant, 86400), rate_cost(p_bytes, p_limits[4], 86400));
        exceeded := taken.exceeded || '_per_tenant';
        UPDATE rate_limits SET jobs = jobs - rate_cost(p_jobs, of_type, 86400)
        WHERE exceeded IS NOT NULL AND of_type > 0 AND tenant_id = p_tenant AND user_id = E'\x01' || p_type;
    END IF;
    IF exceeded IS NOT NULL THEN
        UPDATE rate_limits SET jobs = jobs - of_jobs, payload = payload - of_payload
        WHERE tenant_id = p_tenant AND user_id = p_user;
    END IF;
    retry_in := taken.retry_in;
END $$;
