-- What a team's limit is made of. quotas.limit_* is the sum of the grants that hold now; whatever changes a grant writes
-- it again, and so does the first charge after limit_until.
CREATE TABLE grants (
    id         bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    team       text        NOT NULL REFERENCES quotas (team) ON DELETE CASCADE,
    gib        bigint      NOT NULL CHECK (gib >= 0),
    cards      bigint      NOT NULL CHECK (cards >= 0),
    base       boolean     NOT NULL,
    since      timestamptz NOT NULL DEFAULT now(),
    until_at   timestamptz,                    -- it ends by itself
    ended_at   timestamptz,                    -- it was replaced, taken back, or is over and counted so
    granted_by text        NOT NULL,           -- name of the person at that time
    note       text        NOT NULL DEFAULT ''
);

CREATE INDEX grants_live ON grants (team) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX grants_one_base ON grants (team) WHERE base AND ended_at IS NULL;

ALTER TABLE quotas ADD COLUMN limit_until timestamptz; -- when the first of the grants ends; null = none does

INSERT INTO grants (team, gib, cards, base, granted_by)
SELECT team, limit_gib, limit_cards, true, 'rayslice' FROM quotas;

-- A lead's wish for more.
CREATE TABLE raises (
    id          bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    team        text        NOT NULL REFERENCES teams (name) ON DELETE CASCADE,
    asked_by    bigint      NOT NULL REFERENCES users (id),
    gib         bigint      NOT NULL CHECK (gib >= 0),
    cards       bigint      NOT NULL CHECK (cards >= 0),
    until_at    timestamptz,                   -- null = for good
    purpose     text        NOT NULL,
    state       text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'granted', 'denied', 'withdrawn')),
    asked_at    timestamptz NOT NULL DEFAULT now(),
    decided_at  timestamptz,
    decided_by  text        NOT NULL DEFAULT '',
    answer      text        NOT NULL DEFAULT '',
    grant_id    bigint      REFERENCES grants (id)
);

CREATE INDEX raises_team ON raises (team, id DESC);
CREATE INDEX raises_pending ON raises (id) WHERE state = 'pending';

-- What a team's leads have set. A team without a row lets whatever its quota allows start at once.
CREATE TABLE rules (
    team       text        PRIMARY KEY REFERENCES teams (name) ON DELETE CASCADE,
    rules      jsonb       NOT NULL,           -- rayslice.Rules
    changed_at timestamptz NOT NULL DEFAULT now()
);
