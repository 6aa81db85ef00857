-- The tables: records, and the feed of their events.
--
-- Ids are the 16 bytes of a UUID, times the microseconds since 1970, amounts their digits as text.
--
-- References are held by the service, under guards that lock what they name, so there are no foreign
-- keys: a payment outlives its subscription.

CREATE TABLE plans (
    id            BLOB PRIMARY KEY,
    name          TEXT NOT NULL,
    product_id    TEXT,
    variants      TEXT NOT NULL,
    slug          TEXT NOT NULL,
    price         TEXT NOT NULL,
    -- A currency and a trial (P14D) for subscriptions to the plan. NULL: none.
    currency      TEXT,
    href          TEXT,
    billing_cycle TEXT NOT NULL,
    trial_period  TEXT,
    description   TEXT NOT NULL,
    node_quota    INTEGER NOT NULL CHECK (node_quota >= 0),
    features      TEXT NOT NULL,
    most_popular  INTEGER NOT NULL,
    tier          INTEGER NOT NULL CHECK (tier BETWEEN 0 AND 10000),
    is_active     INTEGER NOT NULL,
    -- A JSON object of texts, its keys in the order in which they were sent. NULL: none. So in the other tables.
    metadata      TEXT,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    version       INTEGER NOT NULL CHECK (version > 0),
    -- Lists by price are sorted by it: 15 digits before the point, 6 after it.
    price_order   TEXT NOT NULL GENERATED ALWAYS AS (
        substr('000000000000000' || substr(price, 1, instr(price || '.', '.') - 1), -15)
        || '.' || substr(substr(price, instr(price || '.', '.') + 1) || '000000', 1, 6)
    ) VIRTUAL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX plans_slug ON plans (slug);
CREATE INDEX plans_by_tier ON plans (tier, id);
CREATE INDEX plans_by_price ON plans (price_order, id);
CREATE INDEX plans_by_name ON plans (name, id);
CREATE INDEX plans_of_product ON plans (product_id, id) WHERE product_id IS NOT NULL;

CREATE TABLE subscriptions (
    id                       BLOB PRIMARY KEY,
    user_id                  BLOB NOT NULL,
    subscription_plan_id     BLOB NOT NULL,
    external_subscription_id TEXT,
    billing_cycle            TEXT NOT NULL,
    status                   TEXT NOT NULL,
    is_active                INTEGER NOT NULL,
    renews_at                INTEGER,
    starts_at                INTEGER NOT NULL,
    ends_at                  INTEGER,
    metadata                 TEXT,
    created_at               INTEGER NOT NULL,
    updated_at               INTEGER NOT NULL,
    version                  INTEGER NOT NULL CHECK (version > 0),
    blocked                  INTEGER NOT NULL,
    anchor_at                INTEGER,
    managed_by               TEXT NOT NULL,
    quantity                 INTEGER NOT NULL,
    -- Price, credit and the moments at which billing acts, as JSON. NULL: none is set.
    billing                  TEXT,
    -- A value that no two live subscriptions have, where a user may have only one.
    live_key                 TEXT,
    -- Those of `billing`, for their indexes. NULL: nothing is due; no change of plan is scheduled.
    next_action_at           INTEGER,
    scheduled_plan_id        BLOB,
    -- At the last write: 0 before the start, 3 between the start and the end, 4 after the end. Before a list by access it is
    -- set to 1 if the start has passed since, to 2 if the end has.
    access_phase             INTEGER NOT NULL,
    -- Subscriptions that never renew, or never end, come after all others.
    renews_order             INTEGER GENERATED ALWAYS AS (COALESCE(renews_at, 253402300800000000)) VIRTUAL,
    ends_order               INTEGER GENERATED ALWAYS AS (COALESCE(ends_at, 253402300800000000)) VIRTUAL,
    -- A status that grants access, followed by ~ before the start and by . after the end; or any other status. Blocked
    -- subscriptions have a ! instead. No generated column depends on `updated_at`: every UPDATE sets it, and would rewrite
    -- the entries of their indexes.
    -- They compare the status with each value: for an IN with more than two values in a generated column, SQLite builds a
    -- table in memory, three times for an INSERT and nine for an UPDATE.
    access_class             TEXT GENERATED ALWAYS AS (
        CASE
            WHEN blocked THEN status || '!'
            WHEN status <> 'active' AND status <> 'on_trial' AND status <> 'past_due' AND status <> 'cancelled' THEN status
            WHEN (access_phase = 2 OR access_phase = 4) AND ends_at IS NOT NULL THEN status || '.'
            WHEN access_phase = 0 THEN status || '~'
            ELSE status
        END) VIRTUAL,
    -- When the class changes next by time alone.
    access_changes_at        INTEGER GENERATED ALWAYS AS (
        CASE
            WHEN blocked THEN NULL
            WHEN status <> 'active' AND status <> 'on_trial' AND status <> 'past_due' AND status <> 'cancelled' THEN NULL
            WHEN (access_phase = 2 OR access_phase = 4) AND ends_at IS NOT NULL THEN NULL
            WHEN access_phase = 0 THEN starts_at
            ELSE ends_at
        END) VIRTUAL,
    -- When it last did, since the last write.
    access_changed_at        INTEGER GENERATED ALWAYS AS (
        CASE
            WHEN blocked THEN NULL
            WHEN status <> 'active' AND status <> 'on_trial' AND status <> 'past_due' AND status <> 'cancelled' THEN NULL
            WHEN access_phase = 2 THEN ends_at
            WHEN access_phase = 1 THEN starts_at
        END) VIRTUAL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX subscriptions_external_id ON subscriptions (external_subscription_id)
    WHERE external_subscription_id IS NOT NULL;
CREATE UNIQUE INDEX subscriptions_live ON subscriptions (live_key) WHERE live_key IS NOT NULL;
CREATE INDEX subscriptions_of_user ON subscriptions (user_id, id);
CREATE INDEX subscriptions_of_class ON subscriptions (access_class, id);
CREATE INDEX subscriptions_of_class_by_renewal ON subscriptions (access_class, renews_order, id);
CREATE INDEX subscriptions_of_plan ON subscriptions (subscription_plan_id, access_class, id);
CREATE INDEX subscriptions_of_plan_by_renewal
    ON subscriptions (subscription_plan_id, access_class, renews_order, id);
-- For the guard of an unused plan.
CREATE INDEX subscriptions_to_plan ON subscriptions (scheduled_plan_id) WHERE scheduled_plan_id IS NOT NULL;
CREATE INDEX subscriptions_access_changes ON subscriptions (access_changes_at)
    WHERE access_changes_at IS NOT NULL;
CREATE INDEX subscriptions_access_changed ON subscriptions (access_changed_at)
    WHERE access_changed_at IS NOT NULL;
-- Subscriptions that the clock manages. One that a caller manages is not in the index.
CREATE INDEX subscriptions_due ON subscriptions (next_action_at, id) WHERE next_action_at IS NOT NULL;

CREATE TABLE payments (
    id                  BLOB PRIMARY KEY,
    subscription_id     BLOB NOT NULL,
    amount              TEXT NOT NULL,
    currency            TEXT NOT NULL,
    external_payment_id TEXT,
    status              TEXT NOT NULL,
    metadata            TEXT,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    version             INTEGER NOT NULL CHECK (version > 0),
    settled             INTEGER NOT NULL,
    -- What the payment pays for and when it is to be collected, as JSON. NULL: for no period.
    asked               TEXT,
    -- Those of `asked`, for the indexes.
    due_at              INTEGER,
    next_attempt_at     INTEGER,
    -- The start of the period, if no other payment of the subscription may ask for it unless this one is canceled.
    whole_period        INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX payments_external_id ON payments (external_payment_id)
    WHERE external_payment_id IS NOT NULL;
CREATE UNIQUE INDEX payments_period ON payments (subscription_id, whole_period)
    WHERE whole_period IS NOT NULL AND status <> 'canceled';
CREATE INDEX payments_of_subscription ON payments (subscription_id, id);
CREATE INDEX payments_to_collect ON payments (status, due_at, id)
    WHERE (status = 'pending' OR status = 'processing') AND due_at IS NOT NULL;
CREATE INDEX payments_to_retry ON payments (next_attempt_at, id)
    WHERE status = 'failed' AND next_attempt_at IS NOT NULL;

CREATE TABLE users (
    id         BLOB PRIMARY KEY,
    issuer     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    email      TEXT NOT NULL,
    email_key  TEXT NOT NULL,
    closing    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version    INTEGER NOT NULL CHECK (version > 0)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX users_identity ON users (issuer, subject);
CREATE UNIQUE INDEX users_email ON users (email_key);
-- Accounts whose deletion has begun, to be finished after a restart.
CREATE INDEX users_closing ON users (id) WHERE closing;

CREATE TABLE sessions (
    id                BLOB PRIMARY KEY,
    user_id           BLOB NOT NULL,
    client_id         TEXT NOT NULL,
    issuer            TEXT NOT NULL,
    opened_with       BLOB NOT NULL,
    key_id            INTEGER NOT NULL,
    salt              BLOB NOT NULL,
    generation        INTEGER NOT NULL,
    rotated_at        INTEGER NOT NULL,
    successor_used    INTEGER NOT NULL,
    auth_time         INTEGER NOT NULL,
    last_seen_at      INTEGER NOT NULL,
    expires_at        INTEGER NOT NULL,
    idle_expires_at   INTEGER NOT NULL,
    revoked_at        INTEGER,
    revocation_reason TEXT,
    ip                TEXT,
    user_agent        TEXT,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    version           INTEGER NOT NULL CHECK (version > 0),
    ended_at          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- The live sessions of a user, and the ended ones by their end: a sign-in reads no others.
CREATE INDEX sessions_of_user_by_end ON sessions (user_id, ended_at, id);
CREATE INDEX sessions_by_end ON sessions (ended_at, id);

CREATE TABLE clients (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    scopes     TEXT NOT NULL,
    keys       TEXT NOT NULL,
    revoked_at INTEGER,
    -- The web origins whose pages may call as the client.
    origins    TEXT NOT NULL,
    -- Whether it came by a command or from a settings file, and since when that file does not name it any more.
    source     TEXT NOT NULL,
    left_at    INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version    INTEGER NOT NULL CHECK (version > 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE answers (
    operation   TEXT NOT NULL,
    client      TEXT NOT NULL,
    request_key TEXT NOT NULL,
    version     INTEGER NOT NULL CHECK (version > 0),
    fingerprint BLOB NOT NULL,
    -- The record of the result, and its metadata.
    answer      TEXT NOT NULL,
    metadata    TEXT,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (operation, client, request_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_by_expiry ON answers (expires_at);

-- Small versioned state of the capabilities.
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

-- One writer at a time: events are numbered in the order in which they are committed.
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id       BLOB NOT NULL,
    at       INTEGER NOT NULL,
    subject  TEXT NOT NULL,
    version  INTEGER NOT NULL,
    change   TEXT NOT NULL,
    -- The actor that made the change: client:shop, user:<uuid>, clock, provider:<source>, command, library.
    actor    TEXT NOT NULL
) STRICT;
-- The events of one record, in order.
CREATE INDEX events_of_subject ON events (subject ->> 'id', sequence);
