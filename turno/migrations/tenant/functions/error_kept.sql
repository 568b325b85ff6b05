-- An error in its stored form: unchanged, or truncated to the limits. An end of a job is never refused for its error.
CREATE OR REPLACE FUNCTION error_kept(p_error jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF p_error IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN p_error::turno.job_error;
EXCEPTION WHEN check_violation THEN
    RETURN jsonb_build_object('class', shortened(coalesce(p_error ->> 'class', 'Error'), 200),
                              'message', shortened(coalesce(p_error ->> 'message', p_error::text), 2000));
END $$;
