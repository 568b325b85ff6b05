-- Delete the addresses of a removed tenant.
CREATE OR REPLACE FUNCTION webhook_addresses_forget() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM webhook_addresses WHERE tenant_id = NEW.id;
    RETURN NULL;
END $$;
