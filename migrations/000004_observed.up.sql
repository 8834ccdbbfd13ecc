-- What Kubernetes reported last about each request; observed has no observed_at inside, so that equal means unchanged.
CREATE TABLE clusters (
    request_id  text        PRIMARY KEY REFERENCES requests (id) ON DELETE CASCADE,
    observed    jsonb       NOT NULL,
    observed_at timestamptz NOT NULL
);

-- What Kubernetes reported last about nodes and pools: at most one row.
CREATE TABLE fleet (
    single      boolean     PRIMARY KEY DEFAULT true CHECK (single),
    observed    jsonb       NOT NULL,
    observed_at timestamptz NOT NULL
);
