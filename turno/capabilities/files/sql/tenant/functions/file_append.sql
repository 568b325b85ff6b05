-- Append the next piece to a file that a job writes. The last piece completes the file and may be shorter or empty.
CREATE OR REPLACE FUNCTION file_append(p_job uuid, p_token uuid, p_file uuid, p_n integer, p_data bytea, p_last boolean)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM claimed_job(p_job, p_token);
    UPDATE job_files SET size = size + length(p_data), complete_at = CASE WHEN p_last THEN clock_timestamp() END
    WHERE id = p_file AND job_id = p_job AND complete_at IS NULL AND size = p_n::bigint * piece_bytes
      AND (length(p_data) = piece_bytes OR p_last);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such file of this job is being written, or its pieces came in another order'
            USING ERRCODE = 'TU002';
    END IF;
    IF length(p_data) > 0 THEN
        INSERT INTO job_file_pieces (file_id, n, data) VALUES (p_file, p_n, p_data);
    END IF;
END $$;
