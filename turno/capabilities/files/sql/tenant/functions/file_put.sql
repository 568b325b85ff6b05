-- Keep one piece of an upload. Until the file is complete, a piece that is sent again replaces the stored piece.
--   stored: `received` is the number of bytes so far.  complete: the file has all bytes.
--   there: the file in the folder was complete before; the caller writes no bytes.
--   length: wrong length; every piece but the last has piece_bytes.  unknown: no such file of this user.
-- Of a file in the folder the caller passes p_length without data, and writes the bytes before it commits.
CREATE OR REPLACE FUNCTION file_put(p_file uuid, p_user text, p_n integer, p_data bytea, p_length integer DEFAULT NULL)
RETURNS TABLE (verdict text, received bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    file job_files;
    given integer := coalesce(p_length, length(p_data));
BEGIN
    SELECT * INTO file FROM job_files f WHERE f.id = p_file AND f.user_id = p_user AND f.uploaded
      AND f.in_folder = (p_length IS NOT NULL) FOR UPDATE;
    IF NOT FOUND THEN
        verdict := 'unknown';
    ELSIF file.complete_at IS NOT NULL THEN
        verdict := CASE WHEN file.in_folder THEN 'there' ELSE 'complete' END;
        received := file.size;
    ELSIF p_n < 0 OR given = 0
          OR given <> least(file.piece_bytes, file.size - p_n::bigint * file.piece_bytes) THEN
        verdict := 'length';
    ELSE
        INSERT INTO job_file_pieces AS p (file_id, n, data) VALUES (p_file, p_n, p_data)
        ON CONFLICT (file_id, n) DO UPDATE SET data = excluded.data;
        SELECT sum(CASE WHEN file.in_folder THEN least(file.piece_bytes, file.size - p.n::bigint * file.piece_bytes)
                        ELSE length(p.data) END) INTO received FROM job_file_pieces p WHERE p.file_id = p_file;
        verdict := 'stored';
        IF received = file.size THEN
            UPDATE job_files SET complete_at = clock_timestamp() WHERE id = p_file;
            verdict := 'complete';
        END IF;
    END IF;
    RETURN NEXT;
END $$;
