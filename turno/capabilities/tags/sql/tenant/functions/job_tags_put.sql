-- Add tags to a job. The limit is that of turno/capabilities/tags/tagging.py.
CREATE OR REPLACE FUNCTION job_tags_put(p_job uuid, p_tags text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    -- Concurrent calls for a job take turns: otherwise both would find fewer tags than the limit.
    PERFORM FROM background_jobs j WHERE j.id = p_job FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the tenant has no job %', p_job USING ERRCODE = 'TU012', HINT = 'tag a job of this tenant';
    END IF;
    INSERT INTO job_tags (job_id, tag) SELECT p_job, t.tag FROM unnest(p_tags) AS t (tag) ON CONFLICT DO NOTHING;
    IF (SELECT count(*) FROM job_tags t WHERE t.job_id = p_job) > 10 THEN
        RAISE EXCEPTION 'job % would have more than 10 tags', p_job USING ERRCODE = 'TU012', HINT = 'use fewer tags';
    END IF;
END $$;
