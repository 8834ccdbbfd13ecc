DROP INDEX idempotency_keys_age;
DROP INDEX requests_state_since;
CREATE INDEX requests_state_since ON requests (state_since);

DROP INDEX audit_at;
CREATE INDEX audit_at ON audit (at);
DROP INDEX audit_team;

ALTER TABLE audit
    DROP COLUMN subject,
    DROP COLUMN via;

DROP INDEX requests_granted;
DROP INDEX requests_decided;
DROP INDEX requests_team_decided;
DROP INDEX requests_open_oldest;
DROP INDEX requests_open;

UPDATE requests SET state = 'pending' WHERE state = 'returned';

ALTER TABLE requests
    DROP COLUMN asked,
    DROP COLUMN revision,
    DROP COLUMN sent_at,
    DROP COLUMN escalated_at,
    DROP COLUMN decided_by,
    DROP COLUMN answer,
    DROP CONSTRAINT requests_state_check,
    ADD CONSTRAINT requests_state_check CHECK (state IN ('pending', 'approved', 'rejected', 'cancelled', 'provisioning',
                                                         'ready', 'attention', 'stopping', 'stopped'));
