-- Jobs of one key that wait until the one before has ended: docs/decisions/0076-ordered-events.md.
-- Where a ticket stands in its key's order; null where any may go first.
ALTER TABLE tickets ADD COLUMN key_position bigint;
CREATE INDEX tickets_in_order ON tickets (tenant_id, concurrency_key, key_position, job_id) WHERE key_position IS NOT NULL;

-- One that failed for good keeps those behind it waiting, until somebody replays or discards it.
ALTER TABLE dead_letters ADD COLUMN concurrency_key text, ADD COLUMN key_position bigint;
CREATE INDEX dead_letters_in_order ON dead_letters (tenant_id, concurrency_key, key_position)
    WHERE closed_at IS NULL AND key_position IS NOT NULL;
-- The body is in ../functions/key_moved.sql.
CREATE FUNCTION key_unblocked() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER key_unblocked AFTER UPDATE OF closed_at ON dead_letters FOR EACH ROW
    WHEN (NEW.key_position IS NOT NULL AND OLD.closed_at IS NULL AND NEW.closed_at IS NOT NULL)
    EXECUTE FUNCTION key_unblocked();

-- Whether a type has the events of one key one after another.
ALTER TABLE subscriptions ADD COLUMN ordered boolean NOT NULL DEFAULT false;

-- It takes more parameters now.
DROP FUNCTION IF EXISTS subscribe(text[], smallint[], text[], text[], boolean[]);
