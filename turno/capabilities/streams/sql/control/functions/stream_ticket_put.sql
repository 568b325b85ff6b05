CREATE OR REPLACE FUNCTION stream_ticket_put(p_hash bytea, p_tenant text, p_user text, p_operator boolean, p_job uuid,
                                  p_issued_at double precision, p_until double precision, p_for interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    -- Unused tickets, in small batches, without tickets that another session removes.
    DELETE FROM stream_tickets WHERE hash IN (
        SELECT hash FROM stream_tickets WHERE expires_at < clock_timestamp() LIMIT 100 FOR UPDATE SKIP LOCKED);
    INSERT INTO stream_tickets (hash, tenant, user_id, operator, job_id, issued_at, until, expires_at)
    VALUES (p_hash, p_tenant, p_user, p_operator, p_job, p_issued_at, p_until, clock_timestamp() + p_for);
END $$;
