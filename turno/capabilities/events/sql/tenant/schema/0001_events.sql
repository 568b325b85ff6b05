-- Published events: facts of the business, inserted in its transaction.
CREATE TABLE background_events (
    id           uuid PRIMARY KEY DEFAULT turno.uuid_v7(),
    name         text NOT NULL CHECK (name ~ '^[a-z][a-z0-9_.]{0,99}$'),
    -- The subject of the event, such as a customer: the concurrency key of subscribers with concurrency keys.
    key          turno.concurrency_key,
    data         turno.job_payload NOT NULL,
    user_id      turno.user_name NOT NULL,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The order of publication, independent of the clock.
    number       bigint GENERATED ALWAYS AS IDENTITY
);
-- Ids are in the order of milliseconds only.
CREATE INDEX background_events_of_name ON background_events (name, published_at, id);
CREATE INDEX background_events_by_age ON background_events (published_at, id);

-- The job of each event for each subscriber: the key permits one. A row is deleted with its event.
CREATE TABLE background_event_jobs (
    event_id uuid NOT NULL REFERENCES background_events ON DELETE CASCADE,
    type     turno.type_name NOT NULL,
    job_id   uuid NOT NULL,
    PRIMARY KEY (event_id, type)
);
