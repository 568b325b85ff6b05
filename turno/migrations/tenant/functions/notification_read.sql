-- Mark a user's notification as read: of a review, or of the end of the job with this id. Returns its job.
CREATE OR REPLACE FUNCTION notification_read(p_notification uuid, p_user text) RETURNS uuid
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    WITH review AS (
        UPDATE notifications_of_reviews SET read_at = coalesce(read_at, clock_timestamp())
        WHERE id = p_notification AND user_id = p_user RETURNING job_id
    ), job AS (
        UPDATE background_jobs SET read_at = coalesce(read_at, clock_timestamp())
        WHERE id = p_notification AND user_id = p_user AND status IN ('completed', 'failed', 'cancelled') AND awaited_by IS NULL
        RETURNING id
    )
    SELECT job_id FROM review UNION ALL SELECT id FROM job;
END;
