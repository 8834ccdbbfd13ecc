DROP INDEX tokens_ending;
DROP INDEX requests_ending;
ALTER TABLE tokens DROP COLUMN told_ending_at;
ALTER TABLE requests DROP COLUMN told_ending_at;
DROP TABLE notification_settings;
DROP TABLE notices;
