-- Record a try of a delivery: without an error its row is deleted; with an error it is due after p_pause, or never again if
-- p_pause is NULL.
CREATE OR REPLACE FUNCTION webhook_tried(p_id bigint, p_error text, p_pause interval) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    DELETE FROM webhooks WHERE id = p_id AND p_error IS NULL;
    UPDATE webhooks SET attempts = attempts + 1, error = left(p_error, 1000),
                         due_at = coalesce(clock_timestamp() + p_pause, 'infinity')
    WHERE id = p_id AND p_error IS NOT NULL;
END;
