ALTER TABLE job_schedules DROP COLUMN concurrency_key;
DROP TABLE background_job_keys CASCADE;
ALTER TABLE background_jobs DROP COLUMN concurrency_key, DROP COLUMN key_for_ever;
