-- NULL: a user may have any number of open jobs, by MAX_PENDING_JOBS_PER_USER=0.
ALTER TABLE handlers ALTER COLUMN pending_limit DROP NOT NULL;
