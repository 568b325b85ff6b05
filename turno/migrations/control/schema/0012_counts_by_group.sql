-- tenant_loads tells what charts draw: of a tenant over all types ('') by five minutes as before; of a company, whose
-- number is negative here, by type and five minutes; and of all tenants (0) by type and minute. Types that nobody announced are '(other)'.
ALTER TABLE tenant_loads
    ADD COLUMN type      text NOT NULL DEFAULT '',
    ADD COLUMN completed bigint NOT NULL DEFAULT 0,
    ADD COLUMN failed    bigint NOT NULL DEFAULT 0,
    ADD COLUMN cancelled bigint NOT NULL DEFAULT 0,
    ADD COLUMN retried   bigint NOT NULL DEFAULT 0,
    ADD COLUMN attempts  bigint NOT NULL DEFAULT 0;
ALTER TABLE tenant_loads DROP CONSTRAINT tenant_loads_pkey, ADD PRIMARY KEY (slot, tenant_id, type);

-- How many jobs of a tenant and type ended by five minutes, and how many of those failed. Kept for two hours.
CREATE TABLE recent_ends (
    slot      timestamptz NOT NULL,
    tenant_id integer NOT NULL,
    type      text NOT NULL,
    ended     bigint NOT NULL,
    failed    bigint NOT NULL,
    PRIMARY KEY (slot, tenant_id, type)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- What the counts by minute tell of the time before the upgrade. Whoever counts waits for the end of it.
TRUNCATE tenant_loads;
INSERT INTO tenant_loads
SELECT coalesce(o.slot, o.minute), coalesce(o.tenant_id, -o.company_id, 0), sum(completed + failed + cancelled), sum(run_ms),
       ARRAY[sum(outcomes * (bucket = 0)::integer), sum(outcomes * (bucket = 1)::integer),
             sum(outcomes * (bucket = 2)::integer), sum(outcomes * (bucket = 3)::integer),
             sum(outcomes * (bucket = 4)::integer), sum(outcomes * (bucket = 5)::integer),
             sum(outcomes * (bucket = 6)::integer), sum(outcomes * (bucket = 7)::integer),
             sum(outcomes * (bucket = 8)::integer), sum(outcomes * (bucket = 9)::integer),
             sum(outcomes * (bucket = 10)::integer), sum(outcomes * (bucket = 11)::integer),
             sum(outcomes * (bucket = 12)::integer), sum(outcomes * (bucket = 13)::integer),
             sum(outcomes * (bucket = 14)::integer), sum(outcomes * (bucket = 15)::integer),
             sum(outcomes * (bucket = 16)::integer), sum(outcomes * (bucket = 17)::integer),
             sum(outcomes * (bucket = 18)::integer), sum(outcomes * (bucket = 19)::integer),
             sum(outcomes * (bucket = 20)::integer), sum(outcomes * (bucket = 21)::integer),
             sum(outcomes * (bucket = 22)::integer), sum(outcomes * (bucket = 23)::integer),
             sum(outcomes * (bucket = 24)::integer)],
       coalesce(o.known, ''), sum(completed), sum(failed), sum(cancelled), sum(retried), sum(attempts)
FROM (
    SELECT c.tenant_id, n.company_id, c.minute, date_bin('5 minutes', c.minute, 'epoch') AS slot,
           coalesce(h.type, '(other)') AS known, c.wait_bucket AS bucket, c.outcomes, c.attempts, c.run_ms,
           CASE c.outcome WHEN 'completed' THEN c.outcomes ELSE 0 END AS completed,
           CASE c.outcome WHEN 'failed' THEN c.outcomes ELSE 0 END AS failed,
           CASE c.outcome WHEN 'cancelled' THEN c.outcomes ELSE 0 END AS cancelled,
           CASE c.outcome WHEN 'retried' THEN c.outcomes ELSE 0 END AS retried
    FROM outcome_counts c JOIN tenants n ON n.id = c.tenant_id LEFT JOIN handlers h ON h.type = c.type
    WHERE c.minute <> '-infinity' AND c.outcome NOT IN ('rescued', 'claim_lost')
) AS o
GROUP BY GROUPING SETS ((o.slot, o.tenant_id), (o.slot, o.company_id, o.known), (o.minute, o.known));
INSERT INTO recent_ends
SELECT date_bin('5 minutes', minute, 'epoch'), tenant_id, type, sum(outcomes),
       coalesce(sum(outcomes) FILTER (WHERE outcome = 'failed'), 0)
FROM outcome_counts
WHERE minute > now() - interval '2 hours' AND tenant_id > 0 AND outcome IN ('completed', 'failed', 'cancelled')
GROUP BY 1, 2, 3;

-- How many dead letters there are of each tenant, type, error and day (UTC), and how many of them nobody closed. A trigger
-- adds a row for each change, whoever makes it; fold_dead_letter_counts makes one of many. Readers add all rows up, so
-- the numbers are exact at any moment. `first_at` and `last_at` are of the whole day, closed ones included.
CREATE TABLE dead_letter_counts (
    tenant_id integer NOT NULL,
    type      text NOT NULL,
    error     text NOT NULL,
    day       date NOT NULL,
    jobs      bigint NOT NULL,
    open      bigint NOT NULL,
    first_at  timestamptz NOT NULL,
    last_at   timestamptz NOT NULL,
    folded    boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE UNIQUE INDEX dead_letter_counts_folded ON dead_letter_counts (tenant_id, type, error, day) WHERE folded;
CREATE INDEX dead_letter_counts_fresh ON dead_letter_counts (day) WHERE NOT folded;

-- Declared for the trigger, which from here on lets no change pass while what is there is counted; its body is in
-- ../functions.
CREATE FUNCTION count_dead_letter() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER count AFTER INSERT OR UPDATE OF closed_at OR DELETE ON dead_letters
    FOR EACH ROW EXECUTE FUNCTION count_dead_letter();
INSERT INTO dead_letter_counts
SELECT tenant_id, type, error, (died_at AT TIME ZONE 'UTC')::date, count(*), count(*) FILTER (WHERE closed_at IS NULL),
       min(died_at), max(died_at), true
FROM dead_letters GROUP BY 1, 2, 3, 4;

CREATE VIEW failed_job_counts AS
SELECT n.slug AS tenant, c.slug AS company, k.type, k.error, k.day, k.jobs, k.open, k.first_at, k.last_at
FROM dead_letter_counts k JOIN tenants n ON n.id = k.tenant_id AND n.state = 'active'
JOIN companies c ON c.id = n.company_id;
CREATE OR REPLACE VIEW open_dead_letters AS
SELECT tenant_id, type, sum(open)::bigint AS jobs, min(first_at) FILTER (WHERE open > 0) AS since
FROM dead_letter_counts GROUP BY tenant_id, type HAVING sum(open) > 0;
CREATE OR REPLACE VIEW backlogs AS
SELECT (SELECT min(run_at) FROM tickets WHERE state = 'ready' AND backend = 'rabbitmq' AND published_at IS NULL)
           AS unpublished_since,
       (SELECT coalesce(sum(open), 0)::bigint FROM dead_letter_counts) AS open_dead_letters;
-- Those of one tenant by time, of whatever state.
DROP INDEX dead_letters_open;
CREATE INDEX dead_letters_of_tenant ON dead_letters (tenant_id, died_at, job_id);
