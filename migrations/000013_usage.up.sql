-- What a figure is about, the most precise first, so that the greatest of several is the least precise.
CREATE TYPE use_grade AS ENUM ('process', 'slice', 'card');

-- What was last found out about each cluster's use. No foreign key: saving must not wait for whoever holds a request.
CREATE TABLE uses (
    request_id text        PRIMARY KEY,
    asked_at   timestamptz NOT NULL,
    data_at    timestamptz,                     -- null = the sources have never answered
    source     text        NOT NULL DEFAULT '',
    problem    jsonb,                           -- why the last question was not answered; null = it was
    dropped    integer     NOT NULL DEFAULT 0,
    samples    jsonb       NOT NULL DEFAULT '[]'
);

-- Until when somebody looks at a cluster.
CREATE TABLE use_watches (
    request_id text        PRIMARY KEY,
    until_at   timestamptz NOT NULL
);

-- The portal's processes that share the asking.
CREATE TABLE replicas (
    name    text        PRIMARY KEY,
    seen_at timestamptz NOT NULL
);

-- Whose figures the rows of the history are: one worker's share of one card.
CREATE TABLE use_series (
    id         bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    request_id text   NOT NULL,
    pod_uid    text   NOT NULL,
    pod        text   NOT NULL,
    gpu        text   NOT NULL,
    UNIQUE (request_id, pod_uid, gpu)
);

-- The history has three rings of partitions made in advance, as the portal may not create any: the rows of a span of time
-- lie in slot (number of the span since 1970) mod (slots of the ring). A slot is emptied by TRUNCATE before its number comes
-- round again, and when its span is older than rows are kept.
CREATE TABLE use_raw (
    slot         smallint    NOT NULL,           -- 8 spans of 3 hours
    series       bigint      NOT NULL,
    at           timestamptz NOT NULL,
    used_mib     integer,                        -- null = unknown, here and below
    limit_mib    integer,
    memory_grade use_grade,
    percent      double precision,
    grade        use_grade,
    PRIMARY KEY (slot, series, at)
) PARTITION BY LIST (slot);

CREATE TABLE use_minutes (
    slot          smallint    NOT NULL,          -- 10 spans of 4 days
    series        bigint      NOT NULL,
    at            timestamptz NOT NULL,          -- begin of the minute
    samples       integer     NOT NULL,
    used_known    integer     NOT NULL,          -- samples that told the memory in use
    used_sum      bigint      NOT NULL,          -- of those, in MiB
    used_peak     integer,
    limit_mib     integer,                       -- the latest
    memory_grade  use_grade,                     -- the least precise
    percent_known integer     NOT NULL,
    percent_sum   double precision NOT NULL,
    percent_peak  double precision,
    grade         use_grade,
    PRIMARY KEY (slot, series, at)
) PARTITION BY LIST (slot);

CREATE TABLE use_hours (
    slot          smallint    NOT NULL,          -- 14 spans of 4 weeks
    series        bigint      NOT NULL,
    at            timestamptz NOT NULL,          -- begin of the hour
    samples       integer     NOT NULL,
    used_known    integer     NOT NULL,
    used_sum      bigint      NOT NULL,
    used_peak     integer,
    limit_mib     integer,
    memory_grade  use_grade,
    percent_known integer     NOT NULL,
    percent_sum   double precision NOT NULL,
    percent_peak  double precision,
    grade         use_grade,
    minutes       bigint      NOT NULL,          -- bit n is set when the memory in use was known in minute n
    PRIMARY KEY (slot, series, at)
) PARTITION BY LIST (slot);

-- Which span's rows each slot holds.
CREATE TABLE use_slots (
    ring text     NOT NULL,
    slot smallint NOT NULL,
    span bigint   NOT NULL DEFAULT -1,           -- -1 = empty
    PRIMARY KEY (ring, slot)
);

-- How far each roll-up has come.
CREATE TABLE use_rolled (
    ring     text        PRIMARY KEY,
    until_at timestamptz NOT NULL DEFAULT 'epoch'
);

INSERT INTO use_rolled (ring) VALUES ('use_minutes'), ('use_hours');

DO $$
DECLARE
    ring record;
BEGIN
    FOR ring IN SELECT * FROM (VALUES ('use_raw', 8), ('use_minutes', 10), ('use_hours', 14)) AS r (name, slots) LOOP
        FOR slot IN 0 .. ring.slots - 1 LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES IN (%s)', ring.name || '_' || slot, ring.name, slot);
            INSERT INTO use_slots (ring, slot) VALUES (ring.name, slot);
        END LOOP;
    END LOOP;
END
$$;
