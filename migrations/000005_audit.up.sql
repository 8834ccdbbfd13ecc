-- Every transition and every refusal. No foreign keys: an entry outlives what it is about.
CREATE TABLE audit (
    id         bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at         timestamptz NOT NULL DEFAULT now(),
    actor_id   bigint,                 -- null = the portal itself
    actor      text        NOT NULL,   -- name at that time
    action     text        NOT NULL,
    request_id text        NOT NULL DEFAULT '',
    team       text        NOT NULL DEFAULT '',
    from_state text        NOT NULL DEFAULT '',
    to_state   text        NOT NULL DEFAULT '',
    reason     jsonb
);

CREATE INDEX audit_request ON audit (request_id, id);
CREATE INDEX audit_at ON audit (at);

CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit is append only: % refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
