-- Dashboards that people have opened: a one-time code leads from the portal to the cluster's host, where a cookie takes its
-- place. Only hashes are kept; "sealed" is the session's secret under the code, then under the cookie, for looking up anew who
-- it is. They end with the session.
CREATE TABLE openings (
    id         bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    request_id text        NOT NULL REFERENCES requests (id) ON DELETE CASCADE,
    user_id    bigint      NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    session    text        NOT NULL REFERENCES sessions (token) ON DELETE CASCADE,
    code       bytea       UNIQUE, -- SHA-256; null = used
    cookie     bytea       UNIQUE, -- SHA-256; null = not used yet
    sealed     bytea       NOT NULL,
    ends_at    timestamptz NOT NULL
);

CREATE INDEX openings_session ON openings (session, request_id, id DESC);
CREATE INDEX openings_request ON openings (request_id);
CREATE INDEX openings_user ON openings (user_id);
CREATE INDEX openings_end ON openings (ends_at);
