-- The group of an error: its class and the first line of its message, redacted by the worker (`group`), without numbers, ids,
-- mail addresses and quoted texts. Two jobs with the same error have the same group, and a group has no tenant's data.
CREATE OR REPLACE FUNCTION error_group(p_error jsonb) RETURNS text LANGUAGE sql IMMUTABLE
RETURN left(left(coalesce(p_error ->> 'class', 'Error'), 100) || coalesce(': ' || nullif(btrim(
    regexp_replace(regexp_replace(left(split_part(coalesce(p_error ->> 'group', p_error ->> 'message'), E'\n', 1), 400),
        $re$'[^']*'|"[^"]*"|«[^»]*»|“[^”]*”|[^\s@]+@[^\s@]+$re$, '…', 'g'),
        '[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[0-9]+([.,:/-][0-9]+)*', '#', 'g')), ''), ''), 200);
