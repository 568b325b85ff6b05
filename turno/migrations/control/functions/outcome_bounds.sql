-- Waits and run times are counted in buckets. Bucket n holds what is longer than the bound before and at most
-- bound n + 1 of these, in milliseconds; the last bucket has no bound.
CREATE OR REPLACE FUNCTION outcome_bounds() RETURNS integer[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000,
             1800000, 3600000, 7200000, 21600000, 86400000];
-- A bucket's bound; the last one's is the bound before it.
CREATE OR REPLACE FUNCTION bucket_bound(p_bucket smallint) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (outcome_bounds())[least(p_bucket + 1, cardinality(outcome_bounds()))];
