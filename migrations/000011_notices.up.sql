-- What people are told, one row per person and piece of news.
CREATE TABLE notices (
    id         bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id    bigint      NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    news_id    bigint      NOT NULL,               -- the job that spread it; a job that runs twice tells once
    at         timestamptz NOT NULL,               -- when it happened
    code       text        NOT NULL,               -- rayslice.NewsKind
    team       text        NOT NULL DEFAULT '',
    request_id text        NOT NULL DEFAULT '',
    args       jsonb       NOT NULL DEFAULT '{}',  -- fill in the sentence
    reason     jsonb,                              -- why it is so; null = nothing to say
    link       text        NOT NULL DEFAULT '',    -- page of the portal where it can be seen
    read_at    timestamptz,
    mailed_at  timestamptz,
    posted_at  timestamptz,                        -- the webhook's receiver took it
    UNIQUE (news_id, user_id)
);

CREATE INDEX notices_user ON notices (user_id, id DESC);
CREATE INDEX notices_unread ON notices (user_id) WHERE read_at IS NULL;
CREATE INDEX notices_at ON notices (at);

-- How people want to be told. Nobody needs a row: without one it is mail and no webhook.
CREATE TABLE notification_settings (
    user_id        bigint      PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    mail           boolean     NOT NULL DEFAULT true,
    webhook_url    text        NOT NULL DEFAULT '', -- '' = none
    webhook_form   text        NOT NULL DEFAULT 'generic' CHECK (webhook_form IN ('generic', 'dingtalk', 'feishu', 'slack')),
    webhook_secret text        NOT NULL DEFAULT '', -- needed in clear, to sign with
    muted          text[]      NOT NULL DEFAULT '{}',
    failure        jsonb,                          -- why the webhook's receiver did not take the last message; null = it did
    failed_at      timestamptz,
    changed_at     timestamptz NOT NULL DEFAULT now()
);

-- Who has been told that something is about to end is not told again.
ALTER TABLE requests ADD COLUMN told_ending_at timestamptz;
ALTER TABLE tokens ADD COLUMN told_ending_at timestamptz;

CREATE INDEX requests_ending ON requests (ends_at)
    WHERE told_ending_at IS NULL AND state IN ('approved', 'provisioning', 'ready', 'attention');
CREATE INDEX tokens_ending ON tokens (ends_at) WHERE told_ending_at IS NULL AND revoked_at IS NULL;
