-- Billing by the clock: prices, periods and what is due.
--
-- The release before this one still runs on these tables: its inserts make records that callers manage, and
-- its updates touch none of these columns. So after one of its updates a column that follows from a record
-- (next_action_at, action_at, claimed_period) may be that of the version before: what is due is then looked
-- at once too often, and a canceled period stays claimed, until this release writes the record again.

-- A currency and a trial (P14D) of their subscriptions. NULL: none.
ALTER TABLE plans ADD COLUMN currency TEXT;
ALTER TABLE plans ADD COLUMN trial_period TEXT;

ALTER TABLE subscriptions ADD COLUMN managed_by TEXT NOT NULL DEFAULT 'caller';
ALTER TABLE subscriptions ADD COLUMN quantity BIGINT NOT NULL DEFAULT 1;
-- Price, credit and the moments at which billing acts, as JSON. NULL: none is set.
ALTER TABLE subscriptions ADD COLUMN billing TEXT;
-- What no two live subscriptions have, where a user may have only one.
ALTER TABLE subscriptions ADD COLUMN live_key TEXT COLLATE "C";
-- That of `billing`, for its index.
ALTER TABLE subscriptions ADD COLUMN next_action_at TIMESTAMPTZ;

-- What the payment pays for and when it is to be collected, as JSON. NULL: for no period.
ALTER TABLE payments ADD COLUMN asked TEXT;
-- When it is due (pending) or is to be retried (failed).
ALTER TABLE payments ADD COLUMN action_at TIMESTAMPTZ;
-- The start of the period that no other payment of the subscription may ask for.
ALTER TABLE payments ADD COLUMN claimed_period TIMESTAMPTZ;

-- A record that a caller manages is in none of them.
CREATE INDEX subscriptions_due ON subscriptions (next_action_at, id) WHERE next_action_at IS NOT NULL;
CREATE UNIQUE INDEX subscriptions_live ON subscriptions (live_key) WHERE live_key IS NOT NULL;
CREATE INDEX payments_due ON payments (status, action_at, id) WHERE action_at IS NOT NULL;
CREATE UNIQUE INDEX payments_period ON payments (subscription_id, claimed_period)
    WHERE claimed_period IS NOT NULL;
