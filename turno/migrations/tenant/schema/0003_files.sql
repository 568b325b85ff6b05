-- Files of one tenant: what people uploaded for a job to read, and what jobs wrote for people to download. They are kept
-- here, where the tenant's rights, the backup and a worker on any host find them; in pieces, so that no process holds one
-- whole. Not named `files`, because an adopted schema may well have a table of that name.
CREATE TABLE job_files (
    id          uuid PRIMARY KEY DEFAULT turno.uuid_v7(),
    -- Shown to people and sent as the download's name; nothing is ever opened by it.
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 120 AND name !~ '[[:cntrl:]/\\:*?"<>|]' AND name !~ '^[. ]'),
    media_type  text NOT NULL CHECK (media_type ~ '^[a-z]+/[a-z0-9.+-]{1,100}$'),
    -- Announced for an upload, which is complete when all of it has arrived; of a file that a job writes, so far. One is
    -- sent from the memory of a web process, so there is a limit that no setting lifts: 64 MB.
    size        bigint NOT NULL CHECK (size BETWEEN 0 AND 67108864),
    piece_bytes integer NOT NULL CHECK (piece_bytes BETWEEN 1024 AND 1048576),
    user_id     turno.user_name NOT NULL,
    uploaded    boolean NOT NULL,
    -- The job that wrote it, or the first that read it: the file is removed together with that job.
    job_id      uuid,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    complete_at timestamptz,
    -- When an upload that no job has read is removed.
    expires_at  timestamptz,
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
-- What is uploaded is mostly compressed already, and to try again costs more than the copying.
ALTER TABLE job_file_pieces ALTER COLUMN data SET STORAGE EXTERNAL;
