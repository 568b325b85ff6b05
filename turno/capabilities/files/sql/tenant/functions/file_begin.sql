-- Announce an upload, before its pieces are sent.
--   accepted: pieces may be sent.  full: the tenant's files would exceed p_most bytes.
CREATE OR REPLACE FUNCTION file_begin(
    p_name text, p_media_type text, p_size bigint, p_piece_bytes integer, p_user text, p_kept interval, p_most bigint,
    p_in_folder boolean DEFAULT false)
RETURNS TABLE (file_id uuid, verdict text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    -- Serialise announcements: two concurrent sums would both see space for one file.
    PERFORM pg_advisory_xact_lock(turno.tenant_of(current_user), hashtext('job_files'));
    IF (SELECT coalesce(sum(f.size), 0) FROM job_files f) + p_size > p_most THEN
        verdict := 'full';
    ELSE
        INSERT INTO job_files (name, media_type, size, piece_bytes, user_id, uploaded, in_folder, expires_at)
        VALUES (p_name, p_media_type, p_size, p_piece_bytes, p_user, true, p_in_folder, clock_timestamp() + p_kept)
        RETURNING id INTO file_id;
        verdict := 'accepted';
    END IF;
    RETURN NEXT;
END $$;
