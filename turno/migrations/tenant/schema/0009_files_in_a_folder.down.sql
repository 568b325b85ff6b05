-- The older release would look for the bytes here, where they are not.
DELETE FROM job_files WHERE in_folder;
ALTER TABLE job_files
    DROP CONSTRAINT job_files_size_check,
    DROP COLUMN in_folder,
    ADD CONSTRAINT job_files_size_check CHECK (size BETWEEN 0 AND 67108864);
DROP FUNCTION IF EXISTS file_begin(text, text, bigint, integer, text, interval, bigint, boolean);
DROP FUNCTION IF EXISTS file_put(uuid, text, integer, bytea, integer);
DROP FUNCTION IF EXISTS file_create(uuid, uuid, text, text, integer, boolean);
