-- Called by processes of the release before, which know one call-back of a job: they deliver none, a newer process does.
CREATE OR REPLACE FUNCTION callbacks_take(p_pauses interval[], p_each integer, p_limit integer)
RETURNS TABLE (job_id uuid, slug text, schema text, url text, attempts integer)
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT c.job_id, NULL::text, NULL::text, c.url, c.attempts FROM callbacks c WHERE false;
END;
