-- Pause the tenant's copy of a template, or resume the copy: earlier moments do not count as missed. Returns changed, same
-- (it is so already), or unknown.
CREATE OR REPLACE FUNCTION template_copy_switch(p_name text, p_pause boolean, p_user text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    own record;
BEGIN
    SELECT c.template_id, c.tenant_id, c.paused_at IS NOT NULL AS paused, t.paused_at IS NOT NULL AS all_paused INTO own
    FROM turno.template_copies c JOIN turno.schedule_templates t ON t.id = c.template_id
    WHERE t.name = p_name FOR UPDATE OF c;
    IF NOT FOUND THEN
        RETURN 'unknown';
    ELSIF own.paused = p_pause THEN
        RETURN 'same';
    END IF;
    UPDATE turno.template_copies c
    SET paused_at = CASE WHEN p_pause THEN clock_timestamp() END, paused_by = CASE WHEN p_pause THEN p_user END,
        next_at = CASE WHEN p_pause OR own.all_paused THEN 'infinity' ELSE clock_timestamp() END, decided_at = NULL,
        problem = NULL
    WHERE c.template_id = own.template_id AND c.tenant_id = own.tenant_id;
    RETURN 'changed';
END $$;
