CREATE TABLE requests (
    id          text        PRIMARY KEY,
    team        text        NOT NULL REFERENCES teams (name),
    owner_id    bigint      NOT NULL REFERENCES users (id),
    name        text        NOT NULL,           -- display name, for searching; the draft has it too
    hours       integer     NOT NULL CHECK (hours > 0),
    draft       jsonb       NOT NULL,
    state       text        NOT NULL CHECK (state IN ('pending', 'approved', 'rejected', 'cancelled', 'provisioning',
                                                      'ready', 'attention', 'stopping', 'stopped')),
    reason      jsonb,                          -- why the state is what it is; null = nothing to say
    cluster_uid text        NOT NULL DEFAULT '', -- of the RayCluster once seen
    created_at  timestamptz NOT NULL DEFAULT now(),
    state_since timestamptz NOT NULL DEFAULT now(),
    decided_at  timestamptz,
    ready_at    timestamptz,                    -- first time ready
    ends_at     timestamptz,                    -- hard end
    stopping_at timestamptz,
    stopped_at  timestamptz                     -- pods confirmed gone
);

CREATE INDEX requests_newest ON requests (created_at DESC, id DESC);
CREATE INDEX requests_team_newest ON requests (team, created_at DESC, id DESC);
CREATE INDEX requests_owner_newest ON requests (owner_id, created_at DESC, id DESC);
CREATE INDEX requests_unfinished ON requests (state, team) WHERE state NOT IN ('rejected', 'cancelled', 'stopped');
CREATE INDEX requests_state_since ON requests (state_since);

CREATE TABLE idempotency_keys (
    user_id    bigint      NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    key        text        NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    body_hash  bytea       NOT NULL,            -- SHA-256 of the draft
    request_id text        NOT NULL REFERENCES requests (id) ON DELETE CASCADE
                           DEFERRABLE INITIALLY DEFERRED, -- the key is claimed before its request is inserted
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, key)
);

CREATE INDEX idempotency_keys_request ON idempotency_keys (request_id);
