-- Give the tags of a retried job to the job that continues it.
CREATE OR REPLACE FUNCTION job_tags_inherit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO job_tags (job_id, tag) SELECT NEW.successor_id, t.tag FROM job_tags t WHERE t.job_id = NEW.id
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
