-- Waits and run times are counted in buckets. Bucket n holds what is longer than the bound before and at most
-- bound n + 1 of these, in milliseconds; the last bucket has no bound.
CREATE OR REPLACE FUNCTION outcome_bounds() RETURNS integer[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000,
             1800000, 3600000, 7200000, 21600000, 86400000];
-- The bound of the bucket that the wait of this share of all is in; the last bucket's is the bound before it. Null without
-- a wait.
CREATE OR REPLACE FUNCTION wait_bound(p_waits numeric[], p_share float8) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
DECLARE
    wanted float8 := p_share * (SELECT sum(n) FROM unnest(p_waits) AS n);
    passed numeric := 0;
BEGIN
    FOR bucket IN 1 .. coalesce(cardinality(p_waits), 0) LOOP
        passed := passed + p_waits[bucket];
        IF passed > 0 AND passed >= wanted THEN
            RETURN (outcome_bounds())[least(bucket, cardinality(outcome_bounds()))];
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
