-- Documents, and an index budget: an index stays only if a list or a guard cannot do without it.
--
-- The release before this one still runs on these tables. Columns and indexes that its statements name
-- are unchanged: `is_over`, `renews_order` and the like go in a later migration.

CREATE TABLE documents (
    collection TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL CHECK (version > 0),
    owner      UUID,
    label      TEXT COLLATE "C",
    due_at     TIMESTAMPTZ,
    -- JSON, byte for byte as it was written.
    body       TEXT NOT NULL,
    PRIMARY KEY (collection, id)
);
CREATE INDEX documents_of_owner ON documents (collection, owner, id) WHERE owner IS NOT NULL;
CREATE INDEX documents_with_label ON documents (collection, label, id) WHERE label IS NOT NULL;
CREATE INDEX documents_due ON documents (collection, due_at, id) WHERE due_at IS NOT NULL;

-- Lists by renewal merge the access classes, each by its own index.
DROP INDEX subscriptions_by_renewal;
-- No statement reads it since migration 2.
ALTER TABLE subscriptions DROP COLUMN shelf;

-- The actor that made the change: client:shop, user:<uuid>, clock, provider:<source>, command, library. NULL
-- for events of the releases before.
ALTER TABLE events ADD COLUMN actor TEXT;
