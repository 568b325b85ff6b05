-- Takes job.once out of one tenant. Refused where effects are on record: without it they would be issued again.
DO $$ BEGIN
    IF EXISTS (SELECT FROM external_effects) THEN
        RAISE EXCEPTION 'this schema has a record of outside effects; remove it by hand if they may be forgotten';
    END IF;
END $$;
DROP FUNCTION effect_caller_gone, effect_decide, effect_close, waiting_hold, job_park, effect_let_go, effect_settle, effect_reissue,
    effect_intend, job_hold;
DROP TABLE external_doubt, external_effects;
DROP INDEX background_jobs_parked, notifications_of_an_end, notifications_of_a_review;
DELETE FROM notifications WHERE kind = 'needs_review';
ALTER TABLE notifications DROP CONSTRAINT notifications_kind_check;
ALTER TABLE notifications
    ADD CONSTRAINT notifications_kind_check CHECK (kind IN ('completed', 'failed', 'cancelled')),
    ADD CONSTRAINT notifications_job_id_key UNIQUE (job_id);
