-- The schedules are gone; the jobs that they made stay.
DELETE FROM turno.schedules;
DROP TABLE job_schedule_runs, job_schedules CASCADE;
