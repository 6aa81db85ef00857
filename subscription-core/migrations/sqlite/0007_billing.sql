-- Billing by the clock: prices, periods and what is due.
--
-- The release before this one still runs on these tables: its inserts make records that callers manage, and
-- its updates touch none of these columns. So no index may depend on a column that follows from the status,
-- which its updates change: what depends on the status is in the conditions of the indexes. A subscription that
-- it changed is looked at by the clock when it was due before; a payment that it reported as failed is not tried
-- again, and leaves its subscription as it was.

-- A currency and a trial (P14D) of their subscriptions. NULL: none.
ALTER TABLE plans ADD COLUMN currency TEXT;
ALTER TABLE plans ADD COLUMN trial_period TEXT;

ALTER TABLE subscriptions ADD COLUMN managed_by TEXT NOT NULL DEFAULT 'caller';
ALTER TABLE subscriptions ADD COLUMN quantity INTEGER NOT NULL DEFAULT 1;
-- Price, credit and the moments at which billing acts, as JSON. NULL: none is set.
ALTER TABLE subscriptions ADD COLUMN billing TEXT;
-- What no two live subscriptions have, where a user may have only one.
ALTER TABLE subscriptions ADD COLUMN live_key TEXT;
-- That of `billing`, for its index.
ALTER TABLE subscriptions ADD COLUMN next_action_at INTEGER;

-- What the payment pays for and when it is to be collected, as JSON. NULL: for no period.
ALTER TABLE payments ADD COLUMN asked TEXT;
-- Those of `asked`, for the indexes.
ALTER TABLE payments ADD COLUMN due_at INTEGER;
ALTER TABLE payments ADD COLUMN next_attempt_at INTEGER;
-- The start of the period, if no other payment of the subscription may ask for it unless this one is canceled.
ALTER TABLE payments ADD COLUMN whole_period INTEGER;

-- A record that a caller manages is in none of them.
CREATE INDEX subscriptions_due ON subscriptions (next_action_at, id) WHERE next_action_at IS NOT NULL;
CREATE UNIQUE INDEX subscriptions_live ON subscriptions (live_key) WHERE live_key IS NOT NULL;
CREATE INDEX payments_to_collect ON payments (status, due_at, id)
    WHERE (status = 'pending' OR status = 'processing') AND due_at IS NOT NULL;
CREATE INDEX payments_to_retry ON payments (next_attempt_at, id)
    WHERE status = 'failed' AND next_attempt_at IS NOT NULL;
CREATE UNIQUE INDEX payments_period ON payments (subscription_id, whole_period)
    WHERE whole_period IS NOT NULL AND status <> 'canceled';
