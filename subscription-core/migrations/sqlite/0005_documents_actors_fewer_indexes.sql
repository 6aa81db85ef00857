-- Documents, and an index budget: an index stays only if a list or a guard cannot do without it.
--
-- The release before this one still runs on these tables. Columns and indexes that its statements name
-- are unchanged.

CREATE TABLE documents (
    collection TEXT NOT NULL,
    id         TEXT NOT NULL,
    version    INTEGER NOT NULL CHECK (version > 0),
    owner      BLOB,
    label      TEXT,
    due_at     INTEGER,
    -- JSON, byte for byte as it was written.
    body       TEXT NOT NULL,
    PRIMARY KEY (collection, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX documents_of_owner ON documents (collection, owner, id) WHERE owner IS NOT NULL;
CREATE INDEX documents_with_label ON documents (collection, label, id) WHERE label IS NOT NULL;
CREATE INDEX documents_due ON documents (collection, due_at, id) WHERE due_at IS NOT NULL;

-- Lists by renewal merge the access classes, each by its own index.
DROP INDEX subscriptions_by_renewal;

-- The actor that made the change: client:shop, user:<uuid>, clock, provider:<source>, command, library. NULL
-- for events of the releases before.
ALTER TABLE events ADD COLUMN actor TEXT;
