DROP TABLE rules;
DROP TABLE raises;
ALTER TABLE quotas DROP COLUMN limit_until;
DROP TABLE grants;
