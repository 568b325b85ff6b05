-- A tenant, or a type, with another quota has all of it: what was used was measured in parts of the old one.
CREATE OR REPLACE FUNCTION quota_reset() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_TABLE_NAME = 'tenants' THEN
        UPDATE rate_limits SET jobs = 0 WHERE tenant_id = NEW.id AND user_id = '';
    ELSE
        UPDATE rate_limits SET jobs = 0 WHERE user_id = E'\x01' || NEW.type;
    END IF;
    RETURN NULL;
END $$;
