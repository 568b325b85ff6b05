-- A job may be split into parts, which it waits for: docs/decisions/0081-parts.md.
-- The job that waits for this one, if one does. What waits has a ticket that is scheduled for `infinity`.
ALTER TABLE tickets ADD COLUMN awaited_by uuid;
CREATE INDEX tickets_awaited ON tickets (awaited_by) WHERE awaited_by IS NOT NULL;

-- Whoever changes what a job waits for leaves word here, in the same transaction; `promote` looks whether it may go on.
-- Nobody takes a lock on the job that waits: its parts end without waiting for one another. No unique index, for the same
-- reason. `early`: a part has failed, and the job goes on at once, whatever is open.
CREATE TABLE part_looks (
    tenant_id integer NOT NULL,
    job_id    uuid NOT NULL,
    early     boolean NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX part_looks_by_age ON part_looks (at);
ALTER TABLE part_looks ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_part_looks ON part_looks FOR INSERT WITH CHECK (tenant_id = (SELECT tenant_of(current_user)));

-- The body is in ../functions/parts_look.sql. A trigger, so that no function can forget who waits; of a ticket that nobody
-- waits for it is not called.
CREATE FUNCTION part_left() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER part_left AFTER DELETE ON tickets FOR EACH ROW
    WHEN (OLD.awaited_by IS NOT NULL) EXECUTE FUNCTION part_left();
