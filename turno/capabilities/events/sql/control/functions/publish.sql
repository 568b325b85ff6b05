-- Publish an event in the caller's transaction: for applications in this database, in any language.
--   SELECT event_id FROM turno.publish(tenant => 'suc0001', event => 'order.paid', data => '{"order_id": 7}')
CREATE OR REPLACE FUNCTION publish(
    tenant text, event text, data jsonb DEFAULT '{}', key text DEFAULT NULL, user_id text DEFAULT NULL,
    OUT event_id uuid, OUT jobs integer)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET jit = off SET enable_seqscan = off SET row_security = on AS $$
#variable_conflict use_column
DECLARE
    target record;
    origin new_job;
BEGIN
    IF jsonb_typeof(data) IS DISTINCT FROM 'object' THEN
        PERFORM not_enqueued('TU012', 'the data of an event is a JSON object', 'name its fields: {"order_id": 7}');
    END IF;
    IF (event COLLATE "C" ~ '^[a-z][a-z0-9_.]{0,99}$') IS NOT TRUE THEN
        PERFORM not_enqueued('TU012', format('%L is no name of an event', left(event, 60)),
                             'say up to 100 small letters, digits, dots and underscores, such as order.paid');
    END IF;
    IF key COLLATE "C" !~ '^[!-~]{1,255}$' THEN
        PERFORM not_enqueued('TU012', 'a key has 1 to 255 letters, digits and signs of ASCII, without spaces',
                             'choose another key');
    END IF;
    target := tenant_for_caller(tenant);
    origin.user_id := coalesce(user_id, 'application');
    origin.backend := target.backend;
    EXECUTE format('SELECT event_id, jobs FROM %s($1, $2, $3, $4)', tenant_function(target.schema, 'event_publish'))
        INTO event_id, jobs USING event, key, data, origin;
    IF jobs > 0 THEN
        PERFORM hint_at_commit();
    END IF;
END $$;
