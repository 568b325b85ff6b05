-- Whether progress counts a job's items: it has a ledger, or waits for jobs with ledgers. The handler reports any other progress.
CREATE OR REPLACE FUNCTION has_items(p_job uuid) RETURNS boolean LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM background_job_items i WHERE i.job_id = p_job)
    OR EXISTS (SELECT FROM background_jobs b WHERE b.awaited_by = p_job);

-- Whether the job that waits for this job counts its items, too: that job has a total.
CREATE OR REPLACE FUNCTION counted_by(p_awaited_by uuid) RETURNS boolean LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM background_job_progress_rows p WHERE p.job_id = p_awaited_by AND p.total > 0);

-- The most frequent group of errors among a thousand failed items of a job and the jobs it waits for.
CREATE OR REPLACE FUNCTION item_error(p_job uuid) RETURNS text LANGUAGE sql STABLE
RETURN coalesce((
    SELECT e.name FROM (
        SELECT turno.error_group(i.error) AS name FROM background_job_items i
        WHERE i.job_id IN (SELECT p_job UNION ALL SELECT b.id FROM background_jobs b WHERE b.awaited_by = p_job)
          AND i.state = 'failed'
        LIMIT 1000) AS e
    GROUP BY e.name ORDER BY count(*) DESC, e.name LIMIT 1), 'Error');
