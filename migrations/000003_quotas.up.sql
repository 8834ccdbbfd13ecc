-- A limit may be set below what is used, so used <= limit is not a constraint of the table; the conditional UPDATE in
-- store charges only up to the limit.
CREATE TABLE quotas (
    team        text   PRIMARY KEY REFERENCES teams (name) ON DELETE CASCADE,
    limit_gib   bigint NOT NULL CHECK (limit_gib >= 0),
    used_gib    bigint NOT NULL DEFAULT 0 CHECK (used_gib >= 0),
    limit_cards bigint NOT NULL CHECK (limit_cards >= 0),
    used_cards  bigint NOT NULL DEFAULT 0 CHECK (used_cards >= 0)
);

-- The ledger: one row per request. used in quotas is the sum of the rows that are not released.
CREATE TABLE charges (
    request_id  text        PRIMARY KEY REFERENCES requests (id),
    team        text        NOT NULL REFERENCES quotas (team),
    gib         bigint      NOT NULL CHECK (gib >= 0),
    cards       bigint      NOT NULL CHECK (cards >= 0),
    charged_at  timestamptz NOT NULL DEFAULT now(),
    released_at timestamptz
);

CREATE INDEX charges_live ON charges (team) WHERE released_at IS NULL;
