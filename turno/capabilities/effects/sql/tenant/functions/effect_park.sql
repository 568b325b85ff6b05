-- A job is about to be parked for an effect. The lock makes a settlement wait for the parked job; a job with an effect
-- that was just settled is not parked.
CREATE OR REPLACE FUNCTION effect_park() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM external_effects WHERE key = NEW.in_doubt AND state = 'intended' FOR SHARE;
    IF NOT FOUND THEN
        NEW.in_doubt := NULL;
    END IF;
    RETURN NEW;
END $$;
