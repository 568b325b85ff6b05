-- Which jobs' ends are to be told to an address outside, and when to try next. One is due when its job's ticket is gone,
-- which the transaction of the end removes: so an end itself costs nothing more, and none is missed.
CREATE TABLE callbacks (
    job_id    uuid PRIMARY KEY,
    tenant_id integer NOT NULL,
    url       text NOT NULL CHECK (length(url) <= 2000),
    attempts  integer NOT NULL DEFAULT 0,
    due_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX callbacks_due ON callbacks (tenant_id, due_at);

ALTER TABLE callbacks ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_callbacks ON callbacks USING (tenant_id = (SELECT tenant_of(current_user)));
