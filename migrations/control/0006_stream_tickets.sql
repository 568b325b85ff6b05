-- Tickets that open a live stream without a header or a cookie: known by their hash, used once, for seconds.
-- Without a foreign key, like `tickets`: the tenant is looked up when the ticket is used.

CREATE TABLE stream_tickets (
    hash       bytea PRIMARY KEY CHECK (length(hash) = 32),
    tenant     text NOT NULL,
    user_id    text NOT NULL,
    operator   boolean NOT NULL,
    job_id     uuid,
    -- The session that asked for it, in Unix seconds: its stream ends when that does.
    issued_at  double precision NOT NULL,
    until      double precision NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX stream_tickets_expired ON stream_tickets (expires_at);

CREATE FUNCTION stream_ticket_put(p_hash bytea, p_tenant text, p_user text, p_operator boolean, p_job uuid,
                                  p_issued_at double precision, p_until double precision, p_for interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    -- Those that nobody used, a few at a time and none that somebody else is removing.
    DELETE FROM stream_tickets WHERE hash IN (
        SELECT hash FROM stream_tickets WHERE expires_at < clock_timestamp() LIMIT 100 FOR UPDATE SKIP LOCKED);
    INSERT INTO stream_tickets (hash, tenant, user_id, operator, job_id, issued_at, until, expires_at)
    VALUES (p_hash, p_tenant, p_user, p_operator, p_job, p_issued_at, p_until, clock_timestamp() + p_for);
END $$;

-- Whoever asks first has it, even if it turns out to be over.
CREATE FUNCTION stream_ticket_take(p_hash bytea)
RETURNS TABLE (tenant text, user_id text, operator boolean, job_id uuid, issued_at double precision,
               until double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN QUERY
        WITH taken AS (DELETE FROM stream_tickets t WHERE t.hash = p_hash RETURNING t.*)
        SELECT t.tenant, t.user_id, t.operator, t.job_id, t.issued_at, t.until
        FROM taken t WHERE t.expires_at > clock_timestamp();
END $$;
