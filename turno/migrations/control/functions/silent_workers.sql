-- How many workers on the list were silent for that long, whether or not somebody swept meanwhile.
CREATE OR REPLACE FUNCTION silent_workers(p_silent_for interval) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT count(*) FROM workers WHERE alive_at < clock_timestamp() - p_silent_for;
END;
