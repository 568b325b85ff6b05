-- The events that each type subscribes to, and whether it receives the events of one key in their order. A row is the
-- declaration of a running release, so a type may have both rows while two releases run: the order then applies.
CREATE TABLE subscriptions (
    event   text NOT NULL CHECK (event ~ '^[a-z][a-z0-9_.]{0,99}$'),
    type    type_name NOT NULL REFERENCES handlers ON DELETE CASCADE,
    ordered boolean NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (event, type, ordered)
);
