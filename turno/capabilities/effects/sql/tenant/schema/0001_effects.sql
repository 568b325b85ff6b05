-- Effects outside the database, such as an authorisation by the tax authority: each is issued once, or a person decides.
--
--   nothing  -> intended   one attempt may now make the call
--   intended -> done       the call answered, a look-up found the effect, or a person settled it
--   intended -> absent     the call certainly did nothing, or a person settled it
--   intended -> intended   issued again: a look-up found nothing, and no process can still make the call
--   absent   -> intended   issued again
--
-- Lock order: tickets before effects. No purge and no reference to jobs: that an invoice was authorised is known for as
-- long as the schema lives.
CREATE TABLE external_effects (
    key         turno.item_key PRIMARY KEY,
    -- The job type that used the key first. Another type with the same key is a mistake.
    type        turno.type_name NOT NULL,
    -- The id of the effect for its receiver; the same in every attempt.
    outside_key uuid NOT NULL,
    state       text NOT NULL CHECK (state IN ('intended', 'done', 'absent')),
    result      turno.job_result,
    -- The attempt that may have issued it last, and the number of calls that may have been made.
    job_id      uuid NOT NULL,
    attempt     integer NOT NULL,
    token       uuid NOT NULL,
    calls       integer NOT NULL CHECK (calls >= 0),
    -- No process makes the call any more: the process reported it, or its parent saw it exit. A missing heartbeat or a
    -- closed session is no proof: a stopped process may continue and make the call.
    caller_gone boolean NOT NULL DEFAULT false,
    intended_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    settled_at  timestamptz,
    settled_by  turno.job_words,
    CHECK ((state = 'intended') = (settled_at IS NULL)),
    CHECK ((state = 'intended') = (settled_by IS NULL)),
    CHECK ((state = 'done') = (result IS NOT NULL))
);
CREATE INDEX external_effects_open ON external_effects (token) WHERE state = 'intended';
CREATE INDEX external_effects_of_job ON external_effects (job_id);

-- While this has a row, the database may be older than the outside world (a restored backup): an effect without a
-- record is then in doubt instead of new.
CREATE TABLE external_doubt (
    since timestamptz PRIMARY KEY DEFAULT clock_timestamp()
);

CREATE TRIGGER effect_caller_gone AFTER UPDATE ON background_job_attempt_rows FOR EACH ROW
    WHEN (NEW.reaped AND NOT OLD.reaped) EXECUTE FUNCTION effect_caller_gone();
CREATE TRIGGER effect_doubt BEFORE UPDATE ON background_job_attempt_rows FOR EACH ROW
    WHEN (NEW.outcome = 'crashed' AND OLD.outcome IS NULL) EXECUTE FUNCTION effect_doubt();
CREATE TRIGGER effect_park BEFORE UPDATE ON background_jobs FOR EACH ROW
    WHEN (NEW.in_doubt IS NOT NULL AND OLD.in_doubt IS NULL) EXECUTE FUNCTION effect_park();
