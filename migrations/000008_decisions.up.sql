ALTER TABLE requests
    DROP CONSTRAINT requests_state_check,
    ADD CONSTRAINT requests_state_check CHECK (state IN ('pending', 'returned', 'approved', 'rejected', 'cancelled', 'provisioning',
                                                         'ready', 'attention', 'stopping', 'stopped')),
    ADD COLUMN asked        jsonb,                          -- the draft as asked, where less was granted; null = draft is what was asked
    ADD COLUMN revision     integer     NOT NULL DEFAULT 1, -- grows whenever what is asked for changes
    ADD COLUMN sent_at      timestamptz NOT NULL DEFAULT now(), -- when it was last sent for a decision
    ADD COLUMN escalated_at timestamptz,                    -- admins were told that nobody decides
    ADD COLUMN decided_by   text        NOT NULL DEFAULT '', -- name of the person who approved, asked back or rejected
    ADD COLUMN answer       text        NOT NULL DEFAULT ''; -- what that person said

UPDATE requests SET sent_at = created_at;

-- What waits for somebody, oldest first; what was decided, latest first; and what somebody was granted in a team.
CREATE INDEX requests_open ON requests (team, sent_at, id) WHERE state IN ('pending', 'returned');
CREATE INDEX requests_open_oldest ON requests (sent_at, id) WHERE state IN ('pending', 'returned');
CREATE INDEX requests_team_decided ON requests (team, decided_at DESC, id DESC) WHERE decided_by <> '';
CREATE INDEX requests_decided ON requests (decided_at DESC, id DESC) WHERE decided_by <> '';
CREATE INDEX requests_granted ON requests (owner_id, team, decided_at) WHERE ends_at IS NOT NULL;

ALTER TABLE audit
    ADD COLUMN subject text NOT NULL DEFAULT '', -- what else it is about, e.g. a person or a token
    ADD COLUMN via     text NOT NULL DEFAULT ''; -- prefix of the API token that acted for the actor

CREATE INDEX audit_team ON audit (team, id);

-- Entries come in order of time, so a block range says enough, and costs the writing of a request next to nothing.
DROP INDEX audit_at;
CREATE INDEX audit_at ON audit USING brin (at);

-- Only what is over is looked for by this.
DROP INDEX requests_state_since;
CREATE INDEX requests_state_since ON requests (state_since) WHERE state IN ('rejected', 'cancelled', 'stopped');

-- Keys are forgotten after two days.
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
