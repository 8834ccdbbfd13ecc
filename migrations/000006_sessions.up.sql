-- Sign-in sessions of the HTTP side.
CREATE TABLE sessions (
    token  text        PRIMARY KEY, -- hash of the cookie's value
    data   bytea       NOT NULL,
    expiry timestamptz NOT NULL
);

CREATE INDEX sessions_expiry ON sessions (expiry);
