-- Records and the feed of their events.
--
-- References are held by the service, under guards that lock what they name, so there are no foreign
-- keys: a payment outlives its subscription.

CREATE TABLE plans (
    id            UUID PRIMARY KEY,
    name          TEXT COLLATE "C" NOT NULL,
    product_id    TEXT COLLATE "C",
    variants      JSONB NOT NULL,
    slug          TEXT COLLATE "C" NOT NULL,
    price         NUMERIC NOT NULL CHECK (price >= 0),
    href          TEXT,
    billing_cycle TEXT NOT NULL,
    description   TEXT NOT NULL,
    node_quota    BIGINT NOT NULL CHECK (node_quota >= 0),
    features      TEXT NOT NULL,
    most_popular  BOOLEAN NOT NULL,
    tier          BIGINT NOT NULL CHECK (tier BETWEEN 0 AND 10000),
    is_active     BOOLEAN NOT NULL,
    created_at    TIMESTAMPTZ NOT NULL,
    updated_at    TIMESTAMPTZ NOT NULL,
    version       BIGINT NOT NULL CHECK (version > 0),
    -- What a list by price is sorted by; in SQLite it differs from the price.
    price_order   NUMERIC GENERATED ALWAYS AS (price) STORED
);
CREATE UNIQUE INDEX plans_slug ON plans (slug);
CREATE INDEX plans_by_tier ON plans (tier, id);
CREATE INDEX plans_by_price ON plans (price_order, id);
CREATE INDEX plans_by_name ON plans (name, id);
CREATE INDEX plans_of_product ON plans (product_id, id) WHERE product_id IS NOT NULL;

CREATE TABLE subscriptions (
    id                       UUID PRIMARY KEY,
    user_id                  UUID NOT NULL,
    subscription_plan_id     UUID NOT NULL,
    external_subscription_id TEXT COLLATE "C",
    billing_cycle            TEXT NOT NULL,
    status                   TEXT COLLATE "C" NOT NULL,
    is_active                BOOLEAN NOT NULL,
    renews_at                TIMESTAMPTZ,
    starts_at                TIMESTAMPTZ NOT NULL,
    ends_at                  TIMESTAMPTZ,
    created_at               TIMESTAMPTZ NOT NULL,
    updated_at               TIMESTAMPTZ NOT NULL,
    version                  BIGINT NOT NULL CHECK (version > 0),
    blocked                  BOOLEAN NOT NULL,
    anchor_at                TIMESTAMPTZ,
    -- Cancelled, and its end has been noticed to have passed. Found out by whoever lists by access.
    is_over                  BOOLEAN NOT NULL DEFAULT FALSE,
    -- What lists by status and by access are sorted into.
    shelf                    TEXT COLLATE "C" GENERATED ALWAYS AS
        (CASE WHEN blocked THEN status || '!' WHEN is_over THEN status || '.' ELSE status END) STORED,
    -- What never renews, or never ends, comes after all that does.
    renews_order             TIMESTAMPTZ GENERATED ALWAYS AS
        (COALESCE(renews_at, TIMESTAMPTZ '10000-01-01 00:00:00+00')) STORED,
    ends_order               TIMESTAMPTZ GENERATED ALWAYS AS
        (COALESCE(ends_at, TIMESTAMPTZ '10000-01-01 00:00:00+00')) STORED
);
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
    id                  UUID PRIMARY KEY,
    subscription_id     UUID NOT NULL,
    amount              NUMERIC NOT NULL CHECK (amount >= 0),
    currency            TEXT NOT NULL,
    external_payment_id TEXT COLLATE "C",
    status              TEXT NOT NULL,
    created_at          TIMESTAMPTZ NOT NULL,
    updated_at          TIMESTAMPTZ NOT NULL,
    version             BIGINT NOT NULL CHECK (version > 0),
    settled             BOOLEAN NOT NULL
);
CREATE UNIQUE INDEX payments_external_id ON payments (external_payment_id)
    WHERE external_payment_id IS NOT NULL;
CREATE INDEX payments_of_subscription ON payments (subscription_id, id);

CREATE TABLE users (
    id         UUID PRIMARY KEY,
    issuer     TEXT COLLATE "C" NOT NULL,
    subject    TEXT COLLATE "C" NOT NULL,
    email      TEXT NOT NULL,
    email_key  TEXT COLLATE "C" NOT NULL,
    closing    BOOLEAN NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version    BIGINT NOT NULL CHECK (version > 0)
);
CREATE UNIQUE INDEX users_identity ON users (issuer, subject);
CREATE UNIQUE INDEX users_email ON users (email_key);

CREATE TABLE sessions (
    id                UUID PRIMARY KEY,
    user_id           UUID NOT NULL,
    client_id         TEXT NOT NULL,
    issuer            TEXT NOT NULL,
    opened_with       BYTEA NOT NULL,
    key_id            BIGINT NOT NULL,
    salt              BYTEA NOT NULL,
    generation        BIGINT NOT NULL,
    rotated_at        TIMESTAMPTZ NOT NULL,
    successor_used    BOOLEAN NOT NULL,
    auth_time         TIMESTAMPTZ NOT NULL,
    last_seen_at      TIMESTAMPTZ NOT NULL,
    expires_at        TIMESTAMPTZ NOT NULL,
    idle_expires_at   TIMESTAMPTZ NOT NULL,
    revoked_at        TIMESTAMPTZ,
    revocation_reason TEXT,
    ip                TEXT,
    user_agent        TEXT,
    created_at        TIMESTAMPTZ NOT NULL,
    updated_at        TIMESTAMPTZ NOT NULL,
    version           BIGINT NOT NULL CHECK (version > 0),
    ended_at          TIMESTAMPTZ NOT NULL
);
CREATE INDEX sessions_of_user ON sessions (user_id, id);
CREATE INDEX sessions_by_end ON sessions (ended_at, id);

CREATE TABLE clients (
    id         TEXT COLLATE "C" PRIMARY KEY,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    scopes     JSONB NOT NULL,
    keys       JSONB NOT NULL,
    revoked_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version    BIGINT NOT NULL CHECK (version > 0)
);

CREATE TABLE answers (
    operation   TEXT COLLATE "C" NOT NULL,
    client      TEXT COLLATE "C" NOT NULL,
    request_key TEXT COLLATE "C" NOT NULL,
    version     BIGINT NOT NULL CHECK (version > 0),
    fingerprint BYTEA NOT NULL,
    answer      JSONB NOT NULL,
    expires_at  TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (operation, client, request_key)
);
CREATE INDEX answers_by_expiry ON answers (expires_at);

-- Commits that run side by side end in any order. So an event gets its place in the feed not from the
-- commit that wrote it but from the first reader that finds it committed: what is seen later is
-- numbered later.
CREATE TABLE events (
    position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       UUID NOT NULL,
    at       TIMESTAMPTZ NOT NULL,
    subject  JSONB NOT NULL,
    version  BIGINT NOT NULL,
    change   JSONB NOT NULL,
    sequence BIGINT
);
CREATE UNIQUE INDEX events_feed ON events (sequence) WHERE sequence IS NOT NULL;
CREATE INDEX events_without_place ON events (position) WHERE sequence IS NULL;
CREATE SEQUENCE feed;
