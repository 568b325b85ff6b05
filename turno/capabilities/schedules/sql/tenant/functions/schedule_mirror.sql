-- Keep the copy in the control schema, by which maintenance finds due schedules.
CREATE OR REPLACE FUNCTION schedule_mirror() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM turno.schedules WHERE schedule_id = OLD.id;
    ELSE
        PERFORM schedule_copy(NEW);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION schedule_copy(p_new job_schedules) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO turno.schedules AS s (schedule_id, tenant_id, name, type, queue, cron, every, zone, spread, missed,
                                      paused_at, next_at, decided_at, problem, missed_runs)
    VALUES (p_new.id, turno.tenant_of(current_user), p_new.name, p_new.type, p_new.queue, p_new.cron, p_new.every,
            p_new.zone, p_new.spread, p_new.missed, p_new.paused_at, p_new.next_at, p_new.decided_at, p_new.problem,
            p_new.missed_runs)
    ON CONFLICT (schedule_id) DO UPDATE
    SET name = excluded.name, type = excluded.type, queue = excluded.queue, cron = excluded.cron, every = excluded.every,
        zone = excluded.zone, spread = excluded.spread, missed = excluded.missed, paused_at = excluded.paused_at,
        next_at = excluded.next_at, decided_at = excluded.decided_at, problem = excluded.problem,
        missed_runs = excluded.missed_runs;
END $$;
