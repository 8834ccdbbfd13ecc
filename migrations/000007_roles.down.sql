CREATE TABLE memberships (
    user_id bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    team    text   NOT NULL REFERENCES teams (name) ON DELETE CASCADE,
    role    text   NOT NULL CHECK (role IN ('member', 'lead')),
    PRIMARY KEY (user_id, team)
);

CREATE INDEX memberships_team ON memberships (team);

INSERT INTO memberships (user_id, team, role)
SELECT user_id, team, CASE WHEN bool_or(role = 'lead') THEN 'lead' ELSE 'member' END
FROM held_roles
WHERE team IS NOT NULL
GROUP BY user_id, team;

ALTER TABLE users
    ADD COLUMN is_admin boolean NOT NULL DEFAULT false,
    DROP COLUMN session_epoch,
    DROP COLUMN language,
    DROP COLUMN seen_at;

UPDATE users u
SET is_admin = true
WHERE EXISTS (SELECT FROM held_roles r WHERE r.user_id = u.id AND r.role = 'admin');

DROP VIEW held_roles;
DROP TABLE roles;
