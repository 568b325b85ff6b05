-- The parts stay as jobs of their own.
DROP TABLE background_job_parts CASCADE;
