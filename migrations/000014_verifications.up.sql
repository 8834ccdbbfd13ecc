-- Runs of the probe over a cluster's workers. At most one of a request is open.
CREATE TABLE verifications (
    run         text        PRIMARY KEY,
    request_id  text        NOT NULL REFERENCES requests (id) ON DELETE CASCADE,
    asked_by    text        NOT NULL DEFAULT '', -- name of the person who asked for it; empty = the portal
    asked_at    timestamptz NOT NULL DEFAULT now(),
    started_at  timestamptz,
    ended_at    timestamptz,
    pods        text[]      NOT NULL DEFAULT '{}', -- UIDs of the workers it covers
    reason      jsonb                              -- why it brought no evidence; null = it did
);

CREATE UNIQUE INDEX verifications_open ON verifications (request_id) WHERE ended_at IS NULL;
CREATE INDEX verifications_request ON verifications (request_id, asked_at DESC);

-- What one run found out about one worker, never changed; the latest of a pod counts.
CREATE TABLE certificates (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run         text        NOT NULL REFERENCES verifications (run) ON DELETE CASCADE,
    request_id  text        NOT NULL,
    pod_uid     text        NOT NULL,
    node        text        NOT NULL,
    enforcement text        NOT NULL CHECK (enforcement IN ('enforced', 'not_enforced', 'inconclusive')),
    at          timestamptz NOT NULL,
    certificate jsonb       NOT NULL,
    UNIQUE (run, pod_uid)
);

CREATE INDEX certificates_request ON certificates (request_id, pod_uid, id DESC);
CREATE INDEX certificates_node ON certificates (node, id DESC);
