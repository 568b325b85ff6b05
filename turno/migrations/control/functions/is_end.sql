-- Whether a job is over after this outcome of an attempt.
CREATE OR REPLACE FUNCTION is_end(p_outcome text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_outcome IN ('completed', 'completed_with_failures', 'nothing_done', 'failed', 'cancelled');
