-- Jobs that share a concurrency key run few at a time, or so many in a period: docs/decisions/0069-keys.md.
CREATE DOMAIN concurrency_key AS text
    CONSTRAINT "concurrency_key has 1 to 255 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);

-- waiting: due, and behind others of its key. Only a ticket with a key waits, and only key_admit makes one with a key ready.
ALTER DOMAIN ticket_state DROP CONSTRAINT "state is scheduled, ready or running";
ALTER DOMAIN ticket_state ADD CONSTRAINT "state is scheduled, waiting, ready or running"
    CHECK (VALUE IN ('scheduled', 'waiting', 'ready', 'running'));
-- Plain text, checked where a job is enqueued: a column of a domain would have the table rewritten.
ALTER TABLE tickets ADD COLUMN concurrency_key text;
-- The line of each key, and who is in front of it.
CREATE INDEX tickets_by_key ON tickets (tenant_id, concurrency_key, state, priority, run_at, job_id)
    WHERE concurrency_key IS NOT NULL;

-- What else a type's code says: queues that a submission may choose besides its own; whether it makes keys of payloads; and
-- how many jobs of one key run at once, or begin in key_period seconds. One at once where it says neither.
ALTER TABLE handlers
    ADD COLUMN other_queues text[] NOT NULL DEFAULT '{}',
    ADD COLUMN keyed boolean NOT NULL DEFAULT false,
    ADD COLUMN key_limit integer CHECK (key_limit > 0),
    ADD COLUMN key_rate integer CHECK (key_rate > 0),
    ADD COLUMN key_period double precision CHECK (key_period > 0);

-- When somebody has to look whether a key's next job may run: at once, because its line changed while another session was
-- at it, or when a start no longer counts for its rate. No unique index: nobody waits for anybody here.
CREATE TABLE key_looks (
    tenant_id integer NOT NULL,
    key       text NOT NULL,
    at        timestamptz NOT NULL,
    start     boolean NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX key_looks_due ON key_looks (at);
CREATE INDEX key_looks_of_key ON key_looks (tenant_id, key, at);

-- The body is in ../functions/key_moved.sql. Triggers, so that no function can forget a key's next job; of a ticket without
-- a key they are not called.
CREATE FUNCTION key_moved() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER key_moved AFTER UPDATE OF state ON tickets FOR EACH ROW
    WHEN (NEW.concurrency_key IS NOT NULL) EXECUTE FUNCTION key_moved();
CREATE TRIGGER key_left AFTER DELETE ON tickets FOR EACH ROW
    WHEN (OLD.concurrency_key IS NOT NULL) EXECUTE FUNCTION key_moved();

-- These take more parameters now.
DROP FUNCTION IF EXISTS enqueue(text, text, jsonb, timestamptz, text, text, interval, text, smallint);
DROP FUNCTION IF EXISTS enqueue_many(text, text, jsonb, timestamptz, text, text[], interval, text, smallint);
DROP FUNCTION IF EXISTS enqueue_target(text, text, text, text[], interval);
DROP FUNCTION IF EXISTS announce(text[], smallint[], text[], integer[], integer, boolean);
