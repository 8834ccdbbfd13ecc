ALTER TABLE requests DROP COLUMN told_idle_at;
