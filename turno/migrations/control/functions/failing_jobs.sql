-- The unresolved failures, neither retried nor discarded, of these companies (NULL: all) by type and class of error:
-- groups with open failures of the last hour, or with 100 failures in a tenant. Within the hour
-- `failed` of `ended` jobs failed, or their items if not `whole_jobs`; both are 0 without recent failures. `unresolved`
-- counts the jobs of any age. `error` is the most frequent error of the class, and `tenant` is NULL for several tenants.
-- A group is above the threshold of alerts, 10 % unless a tenant or a type has its own, if it is so in a tenant. The
-- statistics lag behind the failures by a few seconds.
CREATE OR REPLACE FUNCTION failing_jobs(p_companies text[])
RETURNS TABLE (type text, error_class text, error text, whole_jobs boolean, tenants integer, tenant text, failed bigint,
               ended bigint, unresolved bigint, since timestamptz, above_threshold boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    WITH unresolved AS (
        SELECT tenant, type, outcome = 'failed' AS whole_jobs, error, sum(open) AS jobs,
               min(first_at) FILTER (WHERE open > 0) AS since
        FROM failed_job_counts
        WHERE p_companies IS NULL OR company = ANY (p_companies)
        GROUP BY 1, 2, 3, 4 HAVING sum(open) > 0
    ), recent AS (  -- the names of tenants are joined to the groups, not to each failure
        SELECT n.slug AS tenant, d.* FROM (
            SELECT tenant_id, type, outcome = 'failed' AS whole_jobs, error, min(died_at) AS since, count(*) AS jobs,
                   sum(CASE WHEN outcome = 'failed' THEN 1 ELSE items_failed END) AS failed
            FROM dead_letters WHERE closed_at IS NULL AND died_at > now() - interval '1 hour'
            GROUP BY tenant_id, type, 3, error) AS d
        JOIN tenants n ON n.id = d.tenant_id AND n.state = 'active'
    ), errors AS (
        SELECT u.tenant, u.type, u.whole_jobs, u.error, split_part(u.error, ':', 1) AS error_class, u.jobs,
               coalesce(r.failed, 0) AS failed,
               CASE WHEN r.jobs = u.jobs THEN r.since ELSE u.since END AS since
        FROM unresolved u LEFT JOIN recent r USING (tenant, type, whole_jobs, error)
    ), frequent AS (
        SELECT DISTINCT ON (type, whole_jobs, error_class) type, whole_jobs, error_class, error FROM errors
        GROUP BY type, whole_jobs, error_class, error
        ORDER BY type, whole_jobs, error_class, sum(failed) DESC, sum(jobs) DESC, error
    ), ended AS (
        SELECT n.slug AS tenant, o.type, v.*,
               coalesce(n.alert_failure_percent, t.alert_failure_percent, 10) AS percent
        FROM (
            SELECT scope, type, sum(outcomes) FILTER (WHERE outcome = 'failed') AS failed,
                   sum(outcomes) AS ended, sum(items_failed) AS items_failed,
                   sum(items_done + items_failed) AS items
            FROM statistics WHERE scope > 0 AND minute > now() - interval '1 hour' AND is_end(outcome)
            GROUP BY scope, type HAVING bool_or(outcome = 'failed' OR items_failed > 0)) AS o
        JOIN tenants n ON n.id = o.scope LEFT JOIN job_types t ON t.type = o.type
        CROSS JOIN LATERAL (VALUES (true, o.failed, o.ended), (false, o.items_failed, o.items))
            AS v (whole_jobs, failed, ended)
    ), of_tenants AS (
        SELECT tenant, type, whole_jobs, error_class, sum(failed) AS failed, sum(jobs) AS jobs,
               min(since) AS since, sum(failed) > 0 AS recent,
               -- The largest class stands for all classes, so that many rare errors raise one alert.
               CASE WHEN row_number() OVER (of_type ORDER BY sum(failed) DESC, error_class) = 1
                    THEN sum(sum(failed)) OVER of_type ELSE sum(failed) END AS weighed
        FROM errors GROUP BY tenant, type, whole_jobs, error_class
        WINDOW of_type AS (PARTITION BY tenant, type, whole_jobs)
    ), groups AS (
        SELECT o.type, o.whole_jobs, o.error_class, bool_or(o.recent) AS recent, max(o.jobs) AS most,
               coalesce(array_agg(o.tenant) FILTER (WHERE o.recent), array_agg(o.tenant)) AS slugs,
               sum(o.failed) AS failed, sum(o.jobs) AS unresolved, min(o.since) AS since,
               sum(greatest(e.ended, o.failed)) FILTER (WHERE o.recent) AS ended,
               bool_or(o.recent AND 100 * least(o.weighed, e.failed) >= e.percent * e.ended) AS above_threshold
        FROM of_tenants o LEFT JOIN ended e USING (tenant, type, whole_jobs)
        GROUP BY o.type, o.whole_jobs, o.error_class
    )
    SELECT g.type, g.error_class, f.error, g.whole_jobs, cardinality(g.slugs) AS tenants,
           CASE WHEN cardinality(g.slugs) = 1 THEN g.slugs[1] END AS tenant,
           g.failed::bigint AS failed, coalesce(g.ended, 0)::bigint AS ended,
           g.unresolved::bigint AS unresolved, g.since,
           coalesce(g.above_threshold, false) OR g.most >= 100 AS above_threshold
    FROM groups g JOIN frequent f USING (type, whole_jobs, error_class)
    WHERE g.recent OR g.most >= 100;
END;
