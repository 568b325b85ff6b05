-- The raised alerts: a row while the trouble lasts.
CREATE TABLE alert_states (
    key       text PRIMARY KEY,
    kind      text NOT NULL,
    tenant    text,
    sentence  text NOT NULL,
    command   text NOT NULL,
    rank      integer NOT NULL,  -- the position among the troubles
    raised_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    sent_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    receivers text[] NOT NULL DEFAULT '{}'  -- the names of the receivers at the last look
);

-- The undelivered messages of each receiver; the delivery deletes the row. A receiver whose last delivery failed gets none
-- before the latest next_at of its messages.
CREATE TABLE alert_messages (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    receiver text NOT NULL,
    event    text NOT NULL CHECK (event IN ('raised', 'repeated', 'recovered')),
    key      text NOT NULL,
    kind     text NOT NULL,
    tenant   text,
    sentence text NOT NULL,
    command  text NOT NULL,
    rank     integer NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    tries    integer NOT NULL DEFAULT 0,
    next_at  timestamptz NOT NULL DEFAULT '-infinity'
);
