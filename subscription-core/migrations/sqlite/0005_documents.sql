-- Documents: small versioned state that is found by id, by owner, by label or when it is due.

CREATE TABLE documents (
    collection TEXT NOT NULL,
    id         TEXT NOT NULL,
    version    INTEGER NOT NULL CHECK (version > 0),
    owner      BLOB,
    label      TEXT,
    due_at     INTEGER,
    body       TEXT NOT NULL,
    PRIMARY KEY (collection, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX documents_of_owner ON documents (collection, owner, id) WHERE owner IS NOT NULL;
CREATE INDEX documents_of_label ON documents (collection, label, id) WHERE label IS NOT NULL;
CREATE INDEX documents_due ON documents (collection, due_at, id) WHERE due_at IS NOT NULL;
