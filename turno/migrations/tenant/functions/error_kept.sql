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

-- A text in its stored form: too long a text ends in an ellipsis. An end of a job is never refused for its words.
CREATE OR REPLACE FUNCTION shortened(p_text text, p_most integer) RETURNS text LANGUAGE sql IMMUTABLE
RETURN CASE WHEN length(p_text) > p_most THEN left(p_text, p_most - 1) || '…' ELSE p_text END;
