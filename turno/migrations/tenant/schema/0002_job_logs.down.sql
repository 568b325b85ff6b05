DROP TABLE background_job_logs;
