-- End these sessions, except sessions of other logins than the tenant's; returns their number.
CREATE OR REPLACE FUNCTION sessions_end(p_pids integer[]) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    SELECT count(*) FILTER (WHERE pg_terminate_backend(s.pid)) FROM pg_stat_get_activity(NULL) AS s
    WHERE s.pid = ANY (p_pids) AND pg_has_role(s.usesysid, 'MEMBER');
END;
