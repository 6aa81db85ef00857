-- Records and the feed of their events.
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
    href          TEXT,
    billing_cycle TEXT NOT NULL,
    description   TEXT NOT NULL,
    node_quota    INTEGER NOT NULL CHECK (node_quota >= 0),
    features      TEXT NOT NULL,
    most_popular  INTEGER NOT NULL,
    tier          INTEGER NOT NULL CHECK (tier BETWEEN 0 AND 10000),
    is_active     INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    version       INTEGER NOT NULL CHECK (version > 0),
    -- What a list by price is sorted by: 15 digits before the point, 6 after it.
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
    created_at               INTEGER NOT NULL,
    updated_at               INTEGER NOT NULL,
    version                  INTEGER NOT NULL CHECK (version > 0),
    blocked                  INTEGER NOT NULL,
    anchor_at                INTEGER,
    -- Cancelled, and its end has been noticed to have passed. Found out by whoever lists by access.
    is_over                  INTEGER NOT NULL DEFAULT 0,
    -- What lists by status and by access are sorted into.
    shelf                    TEXT GENERATED ALWAYS AS
        (CASE WHEN blocked THEN status || '!' WHEN is_over THEN status || '.' ELSE status END) VIRTUAL,
    -- What never renews, or never ends, comes after all that does.
    renews_order             INTEGER GENERATED ALWAYS AS
        (COALESCE(renews_at, 253402300800000000)) VIRTUAL,
    ends_order               INTEGER GENERATED ALWAYS AS
        (COALESCE(ends_at, 253402300800000000)) VIRTUAL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX subscriptions_external_id ON subscriptions (external_subscription_id)
    WHERE external_subscription_id IS NOT NULL;
CREATE INDEX subscriptions_by_renewal ON subscriptions (renews_order, id);
CREATE INDEX subscriptions_of_user ON subscriptions (user_id, id);
CREATE INDEX subscriptions_on_shelf ON subscriptions (shelf, id);
CREATE INDEX subscriptions_on_shelf_by_renewal ON subscriptions (shelf, renews_order, id);
CREATE INDEX subscriptions_of_plan ON subscriptions (subscription_plan_id, shelf, id);
CREATE INDEX subscriptions_of_plan_by_renewal ON subscriptions (subscription_plan_id, shelf, renews_order, id);
CREATE INDEX subscriptions_ending ON subscriptions (shelf, ends_order) WHERE status = 'cancelled';

CREATE TABLE payments (
    id                  BLOB PRIMARY KEY,
    subscription_id     BLOB NOT NULL,
    amount              TEXT NOT NULL,
    currency            TEXT NOT NULL,
    external_payment_id TEXT,
    status              TEXT NOT NULL,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    version             INTEGER NOT NULL CHECK (version > 0),
    settled             INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX payments_external_id ON payments (external_payment_id)
    WHERE external_payment_id IS NOT NULL;
CREATE INDEX payments_of_subscription ON payments (subscription_id, id);

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
CREATE INDEX sessions_of_user ON sessions (user_id, id);
CREATE INDEX sessions_by_end ON sessions (ended_at, id);

CREATE TABLE clients (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    scopes     TEXT NOT NULL,
    keys       TEXT NOT NULL,
    revoked_at INTEGER,
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
    answer      TEXT NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (operation, client, request_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_by_expiry ON answers (expires_at);

-- One writer at a time: events are numbered in the order in which they are committed.
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id       BLOB NOT NULL,
    at       INTEGER NOT NULL,
    subject  TEXT NOT NULL,
    version  INTEGER NOT NULL,
    change   TEXT NOT NULL
) STRICT;
