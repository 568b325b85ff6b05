-- Keep lines that attempts of jobs have logged, the newest p_keep of each attempt. A line that is there already was
-- sent again after a lost answer. Lines of purged jobs are dropped. A lock is hardly waited for: the worker has others.
CREATE OR REPLACE FUNCTION job_logs_put(
    p_jobs uuid[], p_attempts integer[], p_numbers bigint[], p_at double precision[], p_levels text[], p_loggers text[],
    p_lines text[], p_keep integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = '50ms' AS $$
BEGIN
    -- Lost with the server are at most the last lines before its crash.
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO background_job_logs (job_id, attempt, number, at, level, logger, line)
    SELECT u.job_id, u.attempt, u.number, to_timestamp(u.at), u.level, u.logger, u.line
    FROM unnest(p_jobs, p_attempts, p_numbers, p_at, p_levels, p_loggers, p_lines)
               AS u (job_id, attempt, number, at, level, logger, line)
    -- A purge that is under way is waited for, or its job would be gone and the line there.
    WHERE EXISTS (SELECT FROM background_jobs j WHERE j.id = u.job_id FOR KEY SHARE)
    ON CONFLICT DO NOTHING;
    DELETE FROM background_job_logs l
    USING (SELECT u.job_id, u.attempt, max(u.number) AS newest
           FROM unnest(p_jobs, p_attempts, p_numbers) AS u (job_id, attempt, number) GROUP BY 1, 2) AS n
    WHERE n.newest > p_keep AND l.job_id = n.job_id AND l.attempt = n.attempt AND l.number <= n.newest - p_keep;
END $$;
