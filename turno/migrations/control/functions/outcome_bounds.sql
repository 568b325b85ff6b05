-- Waits and run times are counted in buckets. Bucket n holds times above the bound before and at most
-- bound n + 1 of these, in milliseconds; the last bucket has no bound.
CREATE OR REPLACE FUNCTION outcome_bounds() RETURNS integer[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000,
             1800000, 3600000, 7200000, 21600000, 86400000];
-- The wait of this rank in a bucket, in milliseconds: with one wait or equal waits it is exact, otherwise interpolated about the
-- mean, and always within the bounds of the bucket. Null unless the rank is from 1 to the number of waits.
CREATE OR REPLACE FUNCTION wait_at(p_bucket smallint, p_waits numeric, p_ms numeric, p_rank numeric) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_rank BETWEEN 1 AND p_waits THEN
           p_ms / p_waits + ((2 * p_rank - 1) / p_waits - 1)
               * least(p_ms / p_waits - coalesce((outcome_bounds())[p_bucket], 0),
                       (outcome_bounds())[p_bucket + 1] - p_ms / p_waits)
       END;

-- Whether a job is over after this outcome of an attempt.
CREATE OR REPLACE FUNCTION is_end(p_outcome text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_outcome IN ('completed', 'completed_with_failures', 'nothing_done', 'failed', 'cancelled', 'expired');
