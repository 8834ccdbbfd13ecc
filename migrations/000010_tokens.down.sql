ALTER TABLE sessions DROP COLUMN checking_until;
DROP TABLE tokens;
