-- How long the silence of the listed workers does not count yet, because no process swept before; NULL if none is silent.
CREATE OR REPLACE FUNCTION silence_left(p_silent_for interval) RETURNS interval
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT p_silent_for - coalesce((SELECT clock_timestamp() - l.since FROM leases l WHERE l.name = 'sweep'), '0')
    WHERE EXISTS (SELECT FROM workers w WHERE w.alive_at < clock_timestamp() - p_silent_for);
END;
