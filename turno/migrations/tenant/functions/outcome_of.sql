-- The outcome of a job that ended with this status and these counts of items; turno/jobs/label.py has the same rule.
CREATE OR REPLACE FUNCTION outcome_of(p_status text, p_done integer, p_failed integer) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_status <> 'completed' OR coalesce(p_failed, 0) = 0 THEN p_status
            WHEN p_done > 0 THEN 'completed_with_failures'
            ELSE 'nothing_done' END;
