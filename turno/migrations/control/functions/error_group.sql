-- An error without what differs between two jobs that met it: its class and its message's first line, with numbers, ids,
-- addresses and whatever stands in quotation marks left out. So it counts as one, and tells operators no tenant's data.
CREATE OR REPLACE FUNCTION error_group(p_error jsonb) RETURNS text LANGUAGE sql IMMUTABLE
RETURN left(left(coalesce(p_error ->> 'class', 'Error'), 100) || coalesce(': ' || nullif(btrim(
    regexp_replace(regexp_replace(left(split_part(p_error ->> 'message', E'\n', 1), 400),
        $re$'[^']*'|"[^"]*"|«[^»]*»|“[^”]*”|[^\s@]+@[^\s@]+$re$, '…', 'g'),
        '[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[0-9]+([.,:/-][0-9]+)*', '#', 'g')), ''), ''), 200);
