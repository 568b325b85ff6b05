-- Make the copies in the control schema agree with the schedules; returns how many rows changed.
CREATE OR REPLACE FUNCTION schedule_repair() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_nestloop = off AS $$
DECLARE
    copied bigint;
    removed bigint;
BEGIN
    PERFORM schedule_copy(s) FROM job_schedules s
    WHERE NOT EXISTS (SELECT FROM turno.schedules c WHERE c.schedule_id = s.id);
    GET DIAGNOSTICS copied = ROW_COUNT;
    DELETE FROM turno.schedules c
    WHERE c.template_id IS NULL AND NOT EXISTS (SELECT FROM job_schedules s WHERE s.id = c.schedule_id);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN copied + removed;
END $$;
