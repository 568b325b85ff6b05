-- Whether a subscriber has a job for each event there is, however old: then its backlog can be looked at again, in a
-- tenant that was put back.
ALTER TABLE subscriptions ADD COLUMN from_beginning boolean NOT NULL DEFAULT false;
UPDATE subscriptions SET from_beginning = backlog;
