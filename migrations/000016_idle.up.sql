-- When the owner of an idle cluster was last told.
ALTER TABLE requests ADD COLUMN told_idle_at timestamptz;
