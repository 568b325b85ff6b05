-- The process of this attempt has ended: it makes no outside call any more.
CREATE OR REPLACE FUNCTION effect_caller_gone() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    UPDATE external_effects SET caller_gone = true WHERE token = NEW.token AND state = 'intended';
    RETURN NULL;
END $$;
