-- Count a mail that a user asks for, unless it is more than p_most in a day; 0 is no limit. In rate_limits it is counted
-- under a user whose name begins with \x02, which no user's does.
CREATE OR REPLACE FUNCTION mail_take(p_tenant integer, p_user text, p_most bigint,
                          OUT exceeded text, OUT retry_in double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    SELECT CASE WHEN t.exceeded IS NOT NULL THEN 'mails_per_day_per_user' END, t.retry_in INTO exceeded, retry_in
    FROM rate_take(p_tenant, E'\x02' || p_user, 0, rate_cost(1, p_most, 86400), 0) AS t;
END $$;
