-- RFC 9562 version 7, for servers older than 18: milliseconds, then 12 bits of their fraction, so that ids sort by time also
-- within a millisecond.
CREATE OR REPLACE FUNCTION uuid_v7() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN (
    SELECT encode(
        overlay(
            overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send(now.us / 1000) FROM 3) FROM 1 FOR 6)
            PLACING substring(int4send((x'7000'::integer + now.us % 1000 * 4096 / 1000)::integer) FROM 3) FROM 7 FOR 2),
        'hex')::uuid
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us OFFSET 0) AS now
);
