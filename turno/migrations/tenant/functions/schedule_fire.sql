-- Make the jobs of these moments and decide the next one, in one transaction; returns how many jobs, or null if another
-- process was faster, or the schedule was changed, since its next moment was p_was. A moment that has its job gets no
-- second one. p_missed moments are left out; p_problem says why, where the caller knows.
-- Without p_version nobody knows the type. One whose last p_most_open jobs are all open gets no more.
CREATE OR REPLACE FUNCTION schedule_fire(
    p_schedule uuid, p_was timestamptz, p_moments timestamptz[], p_next_at timestamptz, p_missed integer, p_problem text,
    p_version smallint, p_queue text, p_max_attempts integer, p_backend text, p_most_open integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    own job_schedules;
    made integer := 0;
    refused text;
BEGIN
    -- A server's crash that loses this commit loses all of it, and the next sweep fires again.
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT * INTO own FROM job_schedules s WHERE s.id = p_schedule AND s.next_at = p_was FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF p_version IS NULL THEN
        refused := format('no handler has the type %s', own.type);
    ELSIF (SELECT j.finished_at IS NULL FROM job_schedule_runs r JOIN background_jobs j ON j.id = r.job_id
           WHERE r.schedule_id = p_schedule ORDER BY r.moment DESC OFFSET p_most_open - 1 LIMIT 1) THEN
        refused := format('its last %s jobs have not ended', p_most_open);
    ELSE
        WITH run AS (
            INSERT INTO job_schedule_runs (schedule_id, moment, job_id)
            SELECT p_schedule, m.moment, turno.uuid_v7() FROM unnest(p_moments) AS m (moment)
            ON CONFLICT (schedule_id, moment) DO NOTHING
            RETURNING job_id, moment
        ), job AS (
            INSERT INTO background_jobs (id, type, version, queue, priority, payload, user_id, max_attempts, run_at,
                                         concurrency_key)
            SELECT r.job_id, own.type, p_version, p_queue, own.priority, own.payload, own.user_id, p_max_attempts, r.moment,
                   own.concurrency_key
            FROM run r
        ), ticket AS (
            INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt,
                                       concurrency_key)
            SELECT r.job_id, turno.tenant_of(current_user), p_queue, own.type, p_version, own.priority, r.moment,
                   CASE WHEN r.moment > clock_timestamp() OR own.concurrency_key IS NOT NULL THEN 'scheduled' ELSE 'ready' END,
                   p_backend, 0, own.concurrency_key
            FROM run r
        )
        SELECT count(*) INTO made FROM run;
    END IF;
    UPDATE job_schedules s
    SET next_at = p_next_at, decided_at = clock_timestamp(), problem = coalesce(refused, p_problem),
        missed_runs = s.missed_runs + p_missed + CASE WHEN refused IS NULL THEN 0 ELSE cardinality(p_moments) END
    WHERE s.id = p_schedule;
    RETURN made;
END $$;
