-- One-use tickets that open a live stream without a header or a cookie; the database stores their hash.
-- No foreign key to tenants, as in `tickets`: the tenant is looked up when the ticket is used.
CREATE TABLE stream_tickets (
    hash       bytea PRIMARY KEY CHECK (length(hash) = 32),
    tenant     text NOT NULL,
    user_id    text NOT NULL,
    operator   boolean NOT NULL,
    job_id     uuid,
    -- Issue and expiry of the session that requested it, in Unix seconds: the stream ends with the session.
    issued_at  double precision NOT NULL,
    until      double precision NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX stream_tickets_expired ON stream_tickets (expires_at);
