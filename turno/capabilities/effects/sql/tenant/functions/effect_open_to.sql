-- Whether this attempt may settle an effect: its own effect, or an effect of its job's type without a living caller.
CREATE OR REPLACE FUNCTION effect_open_to(p_effect external_effects, p_job uuid, p_token uuid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN p_effect.token = p_token
        OR p_effect.type = (SELECT type FROM background_jobs WHERE id = p_job)
           AND (p_effect.caller_gone
                OR NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = p_effect.job_id AND t.token = p_effect.token));
END $$;
