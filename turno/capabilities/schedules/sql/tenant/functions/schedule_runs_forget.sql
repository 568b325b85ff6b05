-- Delete the runs of deleted jobs.
CREATE OR REPLACE FUNCTION schedule_runs_forget() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM job_schedule_runs r USING gone g WHERE r.job_id = g.id;
    RETURN NULL;
END $$;
