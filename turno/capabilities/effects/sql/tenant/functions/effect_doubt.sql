-- An attempt crashed: name the latest effect of its job that may have happened. The job does not fail while it is in doubt.
CREATE OR REPLACE FUNCTION effect_doubt() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    SELECT key INTO NEW.in_doubt FROM external_effects
    WHERE job_id = NEW.job_id AND state = 'intended' ORDER BY intended_at DESC LIMIT 1 FOR UPDATE;
    RETURN NEW;
END $$;
