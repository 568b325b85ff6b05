-- The first call deletes the ticket, also an expired ticket.
CREATE OR REPLACE FUNCTION stream_ticket_take(p_hash bytea)
RETURNS TABLE (tenant text, user_id text, operator boolean, job_id uuid, issued_at double precision,
               until double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN QUERY
        WITH taken AS (DELETE FROM stream_tickets t WHERE t.hash = p_hash RETURNING t.*)
        SELECT t.tenant, t.user_id, t.operator, t.job_id, t.issued_at, t.until
        FROM taken t WHERE t.expires_at > clock_timestamp();
END $$;
