-- Files of one tenant: uploads that jobs read, and files that jobs write for download. The tenant's schema keeps them, so
-- that the tenant's rights and the backup cover them and a worker on any host reads them. They are cut into pieces, so
-- that a process never holds a whole file. The name is not `files`, which an adopted schema may have.
CREATE TABLE job_files (
    id          uuid PRIMARY KEY DEFAULT turno.uuid_v7(),
    -- The name for people and of the download; no file is opened by it.
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 120 AND name !~ '[[:cntrl:]/\\:*?"<>|]' AND name !~ '^[. ]'),
    media_type  text NOT NULL CHECK (media_type ~ '^[a-z]+/[a-z0-9.+-]{1,100}$'),
    -- Of an upload the announced size, of a file of a job the bytes so far. The web sends pieces from memory, so a file in
    -- pieces has a fixed limit of 64 MB.
    size        bigint NOT NULL,
    piece_bytes integer NOT NULL CHECK (piece_bytes BETWEEN 1024 AND 1048576),
    user_id     turno.user_name NOT NULL,
    uploaded    boolean NOT NULL,
    -- The job that wrote the file, or the first job that read the upload; the file is deleted with this job.
    job_id      uuid,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    complete_at timestamptz,
    -- The end of an upload that no job has read.
    expires_at  timestamptz,
    -- The bytes are in the folder of the hosts that TURNO_FILES_FOLDER names; the pieces record only which parts of an upload
    -- arrived.
    in_folder   boolean NOT NULL DEFAULT false,
    CONSTRAINT job_files_size_check CHECK (size BETWEEN 0 AND CASE WHEN in_folder THEN 68719476736 ELSE 67108864 END),
    CHECK ((job_id IS NULL) = (expires_at IS NOT NULL) AND (uploaded OR job_id IS NOT NULL))
);
CREATE INDEX job_files_of_job ON job_files (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX job_files_expiring ON job_files (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE job_file_pieces (
    file_id uuid NOT NULL REFERENCES job_files ON DELETE CASCADE,
    n       integer NOT NULL CHECK (n >= 0),
    data    bytea NOT NULL,
    PRIMARY KEY (file_id, n)
);
-- Most uploads are compressed; another attempt to compress costs more than the copy.
ALTER TABLE job_file_pieces ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE OR REPLACE TRIGGER job_files_forget AFTER DELETE ON background_jobs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION job_rows_forget('job_files');

-- The values that jobs append while they run. `n` orders the values of a job: an attempt writes its values singly, and the next
-- attempt begins after it.
CREATE TABLE background_job_values (
    job_id uuid NOT NULL,
    n      bigint GENERATED ALWAYS AS IDENTITY,
    value  turno.job_result,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, n)
);

CREATE OR REPLACE TRIGGER job_values_forget AFTER DELETE ON background_jobs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION job_rows_forget('background_job_values');
