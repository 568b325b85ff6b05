-- The attempt ends, and its job waits for a person to settle the effect; nothing is counted.
CREATE OR REPLACE FUNCTION job_park(p_job uuid, p_token uuid, p_key text, p_reason text, p_error jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    PERFORM attempt_end(p_job, 'released', p_error);
    IF job_cancel_requested(p_job) THEN
        PERFORM job_end(p_job, 'cancelled', 'cancelled on request', NULL, p_error);
        RETURN 'cancelled';
    END IF;
    UPDATE external_effects SET waiting = array_append(waiting, p_job) WHERE key = p_key AND state = 'intended';
    IF NOT FOUND THEN
        -- Settled in this very moment.
        PERFORM job_requeue(p_job, clock_timestamp(), p_reason, NULL, 0, 0);
        RETURN 'pending';
    END IF;
    PERFORM job_requeue(p_job, 'infinity', p_reason, p_error, 0, 0);
    INSERT INTO notifications (job_id, user_id, kind, data)
    SELECT p_job, user_id, 'needs_review', jsonb_build_object('type', type, 'reason', shortened(p_reason, 1000), 'key', p_key)
    FROM background_jobs WHERE id = p_job;
    RETURN 'pending';
END $$;
