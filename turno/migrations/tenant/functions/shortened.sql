-- A text in its stored form: too long a text ends in an ellipsis. An end of a job is never refused for its words.
CREATE OR REPLACE FUNCTION shortened(p_text text, p_most integer) RETURNS text LANGUAGE sql IMMUTABLE
RETURN CASE WHEN length(p_text) > p_most THEN left(p_text, p_most - 1) || '…' ELSE p_text END;
