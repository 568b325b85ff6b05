-- For which events which types run, as the code of their handlers says; see ../functions/subscribe.sql.
CREATE TABLE subscriptions (
    event   text NOT NULL CHECK (event ~ '^[a-z][a-z0-9_.]{0,99}$'),
    type    type_name NOT NULL REFERENCES handlers ON DELETE CASCADE,
    -- Whether it is still to be given what was published before it was there.
    backlog boolean NOT NULL,
    PRIMARY KEY (event, type)
);
