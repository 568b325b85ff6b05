-- A call-back was delivered, or nobody tries any more.
CREATE OR REPLACE FUNCTION callback_done(p_id bigint) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    DELETE FROM callbacks WHERE id = p_id;
END;
