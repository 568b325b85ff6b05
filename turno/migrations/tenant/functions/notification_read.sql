CREATE OR REPLACE FUNCTION notification_read(p_notification uuid, p_user text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    UPDATE notifications SET read_at = coalesce(read_at, clock_timestamp())
    WHERE id = p_notification AND user_id = p_user;
    RETURN FOUND;
END $$;
