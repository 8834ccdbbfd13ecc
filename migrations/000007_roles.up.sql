-- Every reason why somebody has a role; a person has the strongest of those that hold now.
CREATE TABLE roles (
    user_id    bigint      NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    team       text        REFERENCES teams (name) ON DELETE CASCADE, -- null for an admin, who is one everywhere
    role       text        NOT NULL CHECK (role IN ('member', 'lead', 'admin')),
    source     text        NOT NULL CHECK (source IN ('seed', 'manual', 'oidc', 'config', 'deputy')),
    until_at   timestamptz,                    -- it ends by itself
    granted_by text        NOT NULL DEFAULT '', -- name of the person at that time
    created_at timestamptz NOT NULL DEFAULT now(),
    CHECK ((role = 'admin') = (team IS NULL)),
    UNIQUE NULLS NOT DISTINCT (user_id, team, role, source)
);

CREATE INDEX roles_team ON roles (team, role);

-- The roles that hold now: whoever asks what somebody may do asks here. A deputy stands in only while they are in the team
-- for another reason.
CREATE VIEW held_roles AS
SELECT r.user_id, r.team, r.role, r.source, r.until_at, r.granted_by
FROM roles r
WHERE (r.until_at IS NULL OR r.until_at > now())
    AND (r.source <> 'deputy' OR EXISTS (
        SELECT
        FROM roles o
        WHERE o.user_id = r.user_id
            AND o.team = r.team
            AND o.source <> 'deputy'
            AND (o.until_at IS NULL OR o.until_at > now())
    ));

INSERT INTO roles (user_id, team, role, source)
SELECT user_id, team, role, 'seed' FROM memberships;

INSERT INTO roles (user_id, role, source)
SELECT id, 'admin', 'seed' FROM users WHERE is_admin;

DROP TABLE memberships;

ALTER TABLE users
    DROP COLUMN is_admin,
    ADD COLUMN session_epoch integer NOT NULL DEFAULT 0, -- sessions begun under an earlier one are over
    ADD COLUMN language      text    NOT NULL DEFAULT '', -- of messages; '' = not chosen
    ADD COLUMN seen_at       timestamptz;                -- last sign-in
