-- A call-back was not taken, and is tried again.
CREATE OR REPLACE FUNCTION callback_failed(p_id bigint, p_error text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    UPDATE callbacks SET error = left(p_error, 1000) WHERE id = p_id;
END;
