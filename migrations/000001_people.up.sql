CREATE TABLE teams (
    name       text        PRIMARY KEY,     -- DNS label; stands in labels of running objects, so it never changes
    namespace  text        NOT NULL UNIQUE, -- Kubernetes namespace of its clusters
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE users (
    id         bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    iss        text,                        -- identity is (iss, sub); both null for demo personas
    sub        text,
    name       text        NOT NULL,
    email      text        NOT NULL,
    is_admin   boolean     NOT NULL DEFAULT false,
    disabled   boolean     NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (iss, sub),
    CHECK ((iss IS NULL) = (sub IS NULL))
);

-- People of an identity provider may share an address (it is not their identity); seeded personas may not.
CREATE UNIQUE INDEX users_persona_email ON users (lower(email)) WHERE iss IS NULL;

CREATE TABLE memberships (
    user_id bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    team    text   NOT NULL REFERENCES teams (name) ON DELETE CASCADE,
    role    text   NOT NULL CHECK (role IN ('member', 'lead')),
    PRIMARY KEY (user_id, team)
);

CREATE INDEX memberships_team ON memberships (team);
