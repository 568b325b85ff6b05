-- What happened in the business: published in its transaction, for whoever is subscribed now or later.
CREATE TABLE background_events (
    id           uuid PRIMARY KEY DEFAULT turno.uuid_v7(),
    name         text NOT NULL CHECK (name ~ '^[a-z][a-z0-9_.]{0,99}$'),
    -- What it is about, such as a customer: the concurrency key of subscribers that have such keys.
    key          turno.concurrency_key,
    data         turno.job_payload NOT NULL,
    user_id      turno.user_name NOT NULL,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Ids are in the order of milliseconds only.
CREATE INDEX background_events_of_name ON background_events (name, published_at, id);
CREATE INDEX background_events_by_age ON background_events (published_at, id);

-- The job of each event for each type: no two for one, whoever delivers it. A row goes with its event.
CREATE TABLE background_event_jobs (
    event_id uuid NOT NULL REFERENCES background_events ON DELETE CASCADE,
    type     turno.type_name NOT NULL,
    job_id   uuid NOT NULL,
    PRIMARY KEY (event_id, type)
);
