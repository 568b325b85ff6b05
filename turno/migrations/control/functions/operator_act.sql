-- The actor of an act and its tenant. A tenant's functions run as its owner and act for no other tenant.
-- The local setting turno.actor names the actor; without it, as in psql, the actor is the login.
CREATE OR REPLACE FUNCTION operator_act() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.actor := coalesce(NEW.actor, nullif(current_setting('turno.actor', true), ''), session_user);
    NEW.tenant_id := coalesce(turno.tenant_of(current_user), NEW.tenant_id);
    RETURN NEW;
END $$;
