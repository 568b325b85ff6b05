-- Called by processes of the release before, of what they had taken: the address that the submission named was told.
CREATE OR REPLACE FUNCTION callback_close(p_job uuid) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    DELETE FROM callbacks WHERE job_id = p_job AND address_id IS NULL AND url LIKE 'http%';
END;
