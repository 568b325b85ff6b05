-- Takes the whole job system out of one tenant: jobs, history and notifications are gone.
DROP FUNCTION notification_read, job_purge, job_expire, job_repair, job_rescue, job_abandon, job_release, job_fail,
    job_complete, job_checkpoint, job_items, job_cancel_requested, job_progress, job_start, job_cancel, job_retry,
    job_enqueue, ticket_put, job_requeue, job_end, attempt_end, attempt_check, claim_hold;
DROP TABLE notifications, background_jobs_dead_letter, background_job_events, background_job_items,
    background_job_checkpoints, background_job_progress, background_job_attempts, background_jobs;
DROP FUNCTION job_audit, job_revise;
