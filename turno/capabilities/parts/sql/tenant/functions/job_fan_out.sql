-- Split a job into parts, in the transaction of its attempt. A job that continues another job takes over its parts: completed
-- parts unchanged, and in place of an unfinished part the job that continues it. Then p_parts is ignored.
CREATE OR REPLACE FUNCTION job_fan_out(
    p_job uuid, p_token uuid, p_parts jsonb, p_stops boolean, p_total integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    part turno.new_job;
    before uuid;
    done integer := 0;
BEGIN
    PERFORM claim_hold(p_job, p_token);
    part := claimed_job(p_job, p_token);
    part.awaited_by := p_job;
    SELECT j.priority, o.id INTO part.priority, before
    FROM background_jobs j LEFT JOIN background_jobs o ON o.id = j.parent_id AND o.successor_id = p_job WHERE j.id = p_job;
    IF EXISTS (SELECT FROM background_job_parts WHERE part_id = p_job) THEN
        RAISE EXCEPTION 'a part of a job has no parts of its own; split the job itself into more parts' USING ERRCODE = 'TU003';
    END IF;
    INSERT INTO background_job_parts (job_id, n, part_id, stops)
    SELECT p_job, b.n, part_continued(b.part_id, part.backend), b.stops
    FROM background_job_parts b WHERE b.job_id = before ORDER BY b.n;
    IF FOUND THEN
        PERFORM jobs_await(ARRAY(SELECT b.part_id FROM background_job_parts b WHERE b.job_id = p_job), p_job);
        -- Items done before: the items that parts skip, and the progress of parts that no job awaits any more.
        SELECT sum(CASE WHEN j.awaited_by = p_job THEN 0 ELSE coalesce(o.done, 0) END
                   + (SELECT count(*) FROM background_job_items i WHERE i.job_id = b.part_id AND i.state = 'skipped'))
        INTO done
        FROM background_job_parts b JOIN background_jobs j ON j.id = b.part_id
        LEFT JOIN background_job_progress o ON o.job_id = b.part_id
        WHERE b.job_id = p_job;
    ELSE
        PERFORM assert_few_open(part.user_id, jsonb_array_length(p_parts));
        INSERT INTO background_job_parts (job_id, n, part_id, stops)
        SELECT p_job, e.n, e.job_id, p_stops FROM jobs_enqueue(child_jobs(part, p_parts)) AS e;
    END IF;
    IF p_total IS NOT NULL THEN
        PERFORM progress_begin(p_job, done, p_total);
    END IF;
END $$;

-- The latest job that continues a part, or a new job if that job is unfinished, too.
CREATE OR REPLACE FUNCTION part_continued(p_part uuid, p_backend text) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    latest background_jobs;
BEGIN
    LOOP
        SELECT * INTO latest FROM background_jobs j WHERE j.id = p_part;
        EXIT WHEN latest.successor_id IS NULL;
        p_part := latest.successor_id;
    END LOOP;
    IF latest.finished_at IS NOT NULL AND unfinished(p_part) THEN
        SELECT r.job_id INTO p_part FROM job_retry(p_part, NULL, p_backend, NULL, NULL, NULL) AS r;
    END IF;
    RETURN p_part;
END $$;
