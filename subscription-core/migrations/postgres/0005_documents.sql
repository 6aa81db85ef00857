-- Documents: small versioned state that is found by id, by owner, by label or when it is due.

CREATE TABLE documents (
    collection TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL CHECK (version > 0),
    owner      UUID,
    label      TEXT COLLATE "C",
    due_at     TIMESTAMPTZ,
    body       TEXT NOT NULL,
    PRIMARY KEY (collection, id)
);
CREATE INDEX documents_of_owner ON documents (collection, owner, id) WHERE owner IS NOT NULL;
CREATE INDEX documents_of_label ON documents (collection, label, id) WHERE label IS NOT NULL;
CREATE INDEX documents_due ON documents (collection, due_at, id) WHERE due_at IS NOT NULL;
