-- Whether a release announced, within an hour, another payload than p_payload for the job's type and version: its workers may
-- know fields that the caller's release does not declare.
CREATE OR REPLACE FUNCTION payload_declared_otherwise(p_job uuid, p_token uuid, p_payload text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM turno.tickets t
        JOIN turno.handler_payloads h ON h.type = t.type AND h.version = t.version AND h.payload <> p_payload
        WHERE t.job_id = p_job AND t.token = p_token AND h.seen_at > clock_timestamp() - interval '1 hour');
END $$;
