-- A tenant with another quota has all of it: what it used was measured in parts of the old one.
CREATE OR REPLACE FUNCTION quota_reset() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE rate_limits SET jobs = 0 WHERE tenant_id = NEW.id AND user_id = '';
    RETURN NULL;
END $$;
