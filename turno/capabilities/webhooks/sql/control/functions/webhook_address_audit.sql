-- A row of the audit for each added or removed address, without its path and query, which may be secret.
CREATE OR REPLACE FUNCTION webhook_address_audit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    address webhook_addresses := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    INSERT INTO operator_acts (action, tenant_id, subject, detail)
    VALUES (CASE TG_OP WHEN 'INSERT' THEN 'webhooks add' ELSE 'webhooks remove' END, address.tenant_id, address.type,
            jsonb_strip_nulls(jsonb_build_object('id', address.id, 'type', address.type,
                                                 'host', split_part(address.url, '/', 3))));
    RETURN NULL;
END $$;
