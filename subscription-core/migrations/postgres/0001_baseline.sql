-- The tables: records, and the feed of their events.
--
-- References are held by the service, under guards that lock what they name, so there are no foreign
-- keys: a payment outlives its subscription.
--
-- Tables that grow with the business are vacuumed when a hundredth of their rows is dead: with PostgreSQL's default, a fifth,
-- reads of the front of an index would pass millions of dead entries.

CREATE TABLE plans (
    id            UUID PRIMARY KEY,
    name          TEXT COLLATE "C" NOT NULL,
    product_id    TEXT COLLATE "C",
    variants      JSONB NOT NULL,
    slug          TEXT COLLATE "C" NOT NULL,
    price         NUMERIC NOT NULL CHECK (price >= 0),
    -- A currency and a trial (P14D) for subscriptions to the plan. NULL: none.
    currency      TEXT,
    href          TEXT,
    billing_cycle TEXT NOT NULL,
    trial_period  TEXT,
    description   TEXT NOT NULL,
    node_quota    BIGINT NOT NULL CHECK (node_quota >= 0),
    features      TEXT NOT NULL,
    most_popular  BOOLEAN NOT NULL,
    tier          BIGINT NOT NULL CHECK (tier BETWEEN 0 AND 10000),
    is_active     BOOLEAN NOT NULL,
    -- A JSON object of texts, its keys in the order in which they were sent, so TEXT and not JSONB. NULL: none. So in the other tables.
    metadata      TEXT,
    created_at    TIMESTAMPTZ NOT NULL,
    updated_at    TIMESTAMPTZ NOT NULL,
    version       BIGINT NOT NULL CHECK (version > 0),
    -- Lists by price are sorted by it. In SQLite it differs from the price.
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
    metadata                 TEXT,
    created_at               TIMESTAMPTZ NOT NULL,
    updated_at               TIMESTAMPTZ NOT NULL,
    version                  BIGINT NOT NULL CHECK (version > 0),
    blocked                  BOOLEAN NOT NULL,
    anchor_at                TIMESTAMPTZ,
    managed_by               TEXT NOT NULL,
    quantity                 BIGINT NOT NULL,
    -- Price, credit and the moments at which billing acts, as JSON. NULL: none is set.
    billing                  TEXT,
    -- A value that no two live subscriptions have, where a user may have only one.
    live_key                 TEXT COLLATE "C",
    -- Those of `billing`, for their indexes. NULL: nothing is due; no change of plan is scheduled.
    next_action_at           TIMESTAMPTZ,
    scheduled_plan_id        UUID,
    -- At the last write: 0 before the start, 3 between the start and the end, 4 after the end. Before a list by access it is
    -- set to 1 if the start has passed since, to 2 if the end has.
    access_phase             SMALLINT NOT NULL,
    -- Subscriptions that never renew, or never end, come after all others.
    renews_order             TIMESTAMPTZ GENERATED ALWAYS AS (COALESCE(renews_at, TIMESTAMPTZ '10000-01-01 00:00:00+00')) STORED,
    ends_order               TIMESTAMPTZ GENERATED ALWAYS AS (COALESCE(ends_at, TIMESTAMPTZ '10000-01-01 00:00:00+00')) STORED,
    -- A status that grants access, followed by ~ before the start and by . after the end; or any other status. Blocked
    -- subscriptions have a ! instead. No generated column depends on `updated_at`: every UPDATE sets it, and would rewrite
    -- the entries of their indexes.
    access_class             TEXT COLLATE "C" GENERATED ALWAYS AS (
        CASE
            WHEN blocked THEN status || '!'
            WHEN status NOT IN ('on_trial', 'active', 'past_due', 'cancelled') THEN status
            WHEN (access_phase = 2 OR access_phase = 4) AND ends_at IS NOT NULL THEN status || '.'
            WHEN access_phase = 0 THEN status || '~'
            ELSE status
        END) STORED,
    -- When the class changes next by time alone.
    access_changes_at        TIMESTAMPTZ GENERATED ALWAYS AS (
        CASE
            WHEN blocked OR status NOT IN ('on_trial', 'active', 'past_due', 'cancelled') THEN NULL
            WHEN (access_phase = 2 OR access_phase = 4) AND ends_at IS NOT NULL THEN NULL
            WHEN access_phase = 0 THEN starts_at
            ELSE ends_at
        END) STORED,
    -- When it last did, since the last write.
    access_changed_at        TIMESTAMPTZ GENERATED ALWAYS AS (
        CASE
            WHEN blocked OR status NOT IN ('on_trial', 'active', 'past_due', 'cancelled') THEN NULL
            WHEN access_phase = 2 THEN ends_at
            WHEN access_phase = 1 THEN starts_at
        END) STORED
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02);
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
    id                  UUID PRIMARY KEY,
    subscription_id     UUID NOT NULL,
    amount              NUMERIC NOT NULL CHECK (amount >= 0),
    currency            TEXT NOT NULL,
    external_payment_id TEXT COLLATE "C",
    status              TEXT NOT NULL,
    metadata            TEXT,
    created_at          TIMESTAMPTZ NOT NULL,
    updated_at          TIMESTAMPTZ NOT NULL,
    version             BIGINT NOT NULL CHECK (version > 0),
    settled             BOOLEAN NOT NULL,
    -- What the payment pays for and when it is to be collected, as JSON. NULL: for no period.
    asked               TEXT,
    -- Those of `asked`, for the indexes.
    due_at              TIMESTAMPTZ,
    next_attempt_at     TIMESTAMPTZ,
    -- The start of the period, if no other payment of the subscription may ask for it unless this one is canceled.
    whole_period        TIMESTAMPTZ
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02);
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
    id         UUID PRIMARY KEY,
    issuer     TEXT COLLATE "C" NOT NULL,
    subject    TEXT COLLATE "C" NOT NULL,
    email      TEXT NOT NULL,
    email_key  TEXT COLLATE "C" NOT NULL,
    closing    BOOLEAN NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    version    BIGINT NOT NULL CHECK (version > 0)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02);
CREATE UNIQUE INDEX users_identity ON users (issuer, subject);
CREATE UNIQUE INDEX users_email ON users (email_key);
-- Accounts whose deletion has begun, to be finished after a restart.
CREATE INDEX users_closing ON users (id) WHERE closing;

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
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02);
-- The live sessions of a user, and the ended ones by their end: a sign-in reads no others.
CREATE INDEX sessions_of_user_by_end ON sessions (user_id, ended_at, id);
CREATE INDEX sessions_by_end ON sessions (ended_at, id);

CREATE TABLE clients (
    id         TEXT COLLATE "C" PRIMARY KEY,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    scopes     JSONB NOT NULL,
    keys       JSONB NOT NULL,
    revoked_at TIMESTAMPTZ,
    -- The web origins whose pages may call as the client.
    origins    JSONB NOT NULL,
    -- Whether it came by a command or from a settings file, and since when that file does not name it any more.
    source     TEXT NOT NULL,
    left_at    TIMESTAMPTZ,
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
    -- The record of the result, and its metadata.
    answer      JSONB NOT NULL,
    metadata    TEXT,
    expires_at  TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (operation, client, request_key)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX answers_by_expiry ON answers (expires_at);

-- Small versioned state of the capabilities.
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
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX documents_of_owner ON documents (collection, owner, id) WHERE owner IS NOT NULL;
CREATE INDEX documents_with_label ON documents (collection, label, id) WHERE label IS NOT NULL;
CREATE INDEX documents_due ON documents (collection, due_at, id) WHERE due_at IS NOT NULL;

-- Commits that run side by side end in any order. So an event gets its place in the feed not from the
-- commit that wrote it but from the first reader that finds it committed: what is seen later is
-- numbered later.
CREATE TABLE events (
    position BIGINT GENERATED ALWAYS AS IDENTITY,
    id       UUID NOT NULL,
    at       TIMESTAMPTZ NOT NULL,
    subject  JSONB NOT NULL,
    version  BIGINT NOT NULL,
    change   JSONB NOT NULL,
    -- The actor that made the change: client:shop, user:<uuid>, clock, provider:<source>, command, library.
    actor    TEXT NOT NULL,
    sequence BIGINT
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02);
CREATE UNIQUE INDEX events_feed ON events (sequence) WHERE sequence IS NOT NULL;
CREATE INDEX events_without_place ON events (position) WHERE sequence IS NULL;
-- The events of one record, in order. An event enters the index when it gets its sequence, so a commit
-- writes nothing to it.
CREATE INDEX events_of_subject ON events ((subject ->> 'id'), sequence) WHERE sequence IS NOT NULL;
CREATE SEQUENCE feed;
