-- A file's bytes may be in a folder of the hosts, which FILES_FOLDER names, instead of in pieces here: then it may be larger,
-- and its pieces say only which of an upload have come.
ALTER TABLE job_files
    ADD in_folder boolean NOT NULL DEFAULT false,
    DROP CONSTRAINT job_files_size_check,
    ADD CONSTRAINT job_files_size_check CHECK (size BETWEEN 0 AND CASE WHEN in_folder THEN 68719476736 ELSE 67108864 END);

-- They take a parameter more.
DROP FUNCTION IF EXISTS file_begin(text, text, bigint, integer, text, interval, bigint);
DROP FUNCTION IF EXISTS file_put(uuid, text, integer, bytea);
DROP FUNCTION IF EXISTS file_create(uuid, uuid, text, text, integer);
