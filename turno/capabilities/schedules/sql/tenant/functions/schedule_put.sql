-- Save a schedule under its name: created, changed, exists (p_replace is false), unknown (it is another user's, or
-- p_create is false and the name is free) or full (the tenant has p_most, or the user a tenth of them). p_only limits a
-- user to their own schedules; null for operators. A changed schedule keeps its first user, and remains paused.
CREATE OR REPLACE FUNCTION schedule_put(
    p_columns jsonb, p_next_at timestamptz, p_only text, p_create boolean, p_replace boolean, p_most integer) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    own record;
    new job_schedules := jsonb_populate_record(NULL::job_schedules, p_columns);
BEGIN
    LOOP
        SELECT s.id, s.user_id INTO own FROM job_schedules s WHERE s.name = new.name FOR UPDATE;
        IF FOUND THEN
            IF p_only <> own.user_id THEN
                RETURN 'unknown';
            ELSIF NOT p_replace THEN
                RETURN 'exists';
            END IF;
            PERFORM schedule_take_back(own.id);
            UPDATE job_schedules s
            SET type = new.type, queue = new.queue, payload = new.payload, priority = new.priority, cron = new.cron,
                every = new.every, zone = new.zone, spread = new.spread, missed = new.missed,
                concurrency_key = new.concurrency_key, decided_at = clock_timestamp(), problem = NULL,
                next_at = CASE WHEN s.paused_at IS NULL THEN p_next_at END
            WHERE s.id = own.id;
            RETURN 'changed';
        ELSIF NOT p_create THEN
            RETURN 'unknown';
        ELSIF (SELECT count(*) FROM job_schedules) >= p_most
              OR p_only IS NOT NULL AND (SELECT count(*) FROM job_schedules WHERE user_id = new.user_id) >= p_most / 10 THEN
            RETURN 'full';
        END IF;
        INSERT INTO job_schedules (name, type, queue, payload, priority, user_id, cron, every, zone, spread, missed,
                                   concurrency_key, next_at)
        VALUES (new.name, new.type, new.queue, new.payload, new.priority, new.user_id, new.cron, new.every, new.zone,
                new.spread, new.missed, new.concurrency_key, p_next_at)
        ON CONFLICT (name) DO NOTHING;
        IF FOUND THEN
            RETURN 'created';
        END IF;
        -- Another transaction inserted this name: read it again.
    END LOOP;
END $$;

-- Remove the jobs for future moments. A job that was moved forward or cancelled stays.
CREATE OR REPLACE FUNCTION schedule_take_back(p_schedule uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    gone uuid[];
BEGIN
    WITH taken AS (
        DELETE FROM turno.tickets t USING job_schedule_runs r
        WHERE r.schedule_id = p_schedule AND r.moment > clock_timestamp() AND t.job_id = r.job_id
          AND t.state = 'scheduled' AND t.attempt = 0
        RETURNING t.job_id
    )
    SELECT array_agg(job_id) INTO gone FROM taken;
    DELETE FROM background_job_event_rows WHERE job_id = ANY (gone);
    DELETE FROM background_jobs WHERE id = ANY (gone);
END $$;
