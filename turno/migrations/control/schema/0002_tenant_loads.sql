-- How much each tenant had done by five minutes, over all types: what fairness is told by, and which tenants had most.
-- A row has all the waits, by bucket, so that a quarter of an hour is four rows a tenant, however many jobs ended.
-- Kept for as long as outcome_counts by minute.
CREATE TABLE tenant_loads (
    slot      timestamptz NOT NULL,
    tenant_id integer NOT NULL,
    ended     bigint NOT NULL,
    run_ms    bigint NOT NULL,
    waits     bigint[] NOT NULL,  -- how many by each bucket of outcome_bounds(), and last what is longer than all
    PRIMARY KEY (slot, tenant_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- From here on outcome_counts by minute over all tenants tells waits by bucket and run times by their sum alone.

-- Which tenants have a job that could run; a view runs as its owner, to whom the policies do not apply.
CREATE VIEW waiting_tenants AS SELECT DISTINCT tenant_id FROM tickets WHERE state = 'ready';

-- Declared for the view; the bodies are in ../functions.
CREATE FUNCTION tenant_load_sums() RETURNS SETOF tenant_loads LANGUAGE sql STABLE AS 'SELECT * FROM tenant_loads';
CREATE FUNCTION wait_bound(p_waits numeric[], p_share float8) RETURNS integer LANGUAGE sql IMMUTABLE
    AS 'SELECT NULL::integer';

-- For each tenant: jobs waiting now, and over the last 15 to 20 minutes its share of all running time beside the share
-- that its weight entitles it to among the tenants that had jobs. Of the waits it tells the bound of the bucket.
CREATE OR REPLACE VIEW fairness AS
WITH present AS (
    SELECT tenant_id,
           count(*) FILTER (WHERE state = 'ready') AS waiting,
           count(*) FILTER (WHERE state = 'running') AS running,
           clock_timestamp() - min(run_at) FILTER (WHERE state = 'ready') AS oldest_wait
    FROM tickets WHERE state <> 'scheduled' GROUP BY tenant_id
), recent AS (
    SELECT tenant_id, sum(ended)::bigint AS ended, sum(run_ms) AS run_ms,
           ARRAY[sum(waits[1]), sum(waits[2]), sum(waits[3]), sum(waits[4]), sum(waits[5]), sum(waits[6]),
                 sum(waits[7]), sum(waits[8]), sum(waits[9]), sum(waits[10]), sum(waits[11]), sum(waits[12]),
                 sum(waits[13]), sum(waits[14]), sum(waits[15]), sum(waits[16]), sum(waits[17]), sum(waits[18]),
                 sum(waits[19]), sum(waits[20]), sum(waits[21]), sum(waits[22]), sum(waits[23]), sum(waits[24]),
                 sum(waits[25])] AS waits
    FROM tenant_load_sums() WHERE slot > now() - interval '20 minutes'
    GROUP BY tenant_id
)
SELECT tenant_id, n.slug, n.weight, n.cap, n.paused_at,
       coalesce(p.waiting, 0) AS waiting, coalesce(p.running, 0) AS running, p.oldest_wait,
       coalesce(r.ended, 0) AS ended, wait_bound(r.waits, 0.5) AS wait_p50_ms, wait_bound(r.waits, 0.95) AS wait_p95_ms,
       coalesce(r.run_ms, 0)::numeric / nullif(sum(r.run_ms) OVER (), 0) AS share,
       n.weight::numeric / sum(n.weight) OVER () AS fair_share
FROM present p FULL JOIN recent r USING (tenant_id)
JOIN tenants n ON n.id = tenant_id;

DROP FUNCTION bucket_bound(smallint);

-- The index alone tells how many dead letters a tenant has of a type.
DROP INDEX dead_letters_open;
CREATE INDEX dead_letters_open ON dead_letters (tenant_id, type, died_at) WHERE closed_at IS NULL;
CREATE VIEW open_dead_letters AS
SELECT tenant_id, type, count(*) AS jobs, min(died_at) AS since FROM dead_letters WHERE closed_at IS NULL
GROUP BY tenant_id, type;
