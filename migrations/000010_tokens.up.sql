-- API tokens. Only the hash is kept; the prefix is for people to tell them apart.
CREATE TABLE tokens (
    id         bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id    bigint      NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    team       text        REFERENCES teams (name) ON DELETE CASCADE, -- null = each of the owner's teams
    name       text        NOT NULL,
    prefix     text        NOT NULL,
    hash       bytea       NOT NULL UNIQUE, -- SHA-256
    scopes     text[]      NOT NULL CHECK (scopes <@ ARRAY['read', 'request', 'stop'] AND scopes @> ARRAY['read']),
    created_at timestamptz NOT NULL DEFAULT now(),
    ends_at    timestamptz NOT NULL,
    used_at    timestamptz,                 -- to the minute
    revoked_at timestamptz,
    CHECK (ends_at <= created_at + interval '90 days')
);

CREATE INDEX tokens_user ON tokens (user_id, id DESC);

-- Who is about to ask the identity provider anew about a session; a refresh token must not be used twice at once.
ALTER TABLE sessions ADD COLUMN checking_until timestamptz;
