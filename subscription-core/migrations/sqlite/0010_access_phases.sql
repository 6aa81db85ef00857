-- Access classes that do not depend on the time of the last write.
--
-- SQLite rewrites the index entries of a row if an UPDATE sets a column from which they are made. Every UPDATE sets
-- `updated_at`, and with it all indexes of classes were rewritten. Now a write says in `access_phase` whether the start (3)
-- and the end (4) have passed. The release before still runs on these tables: it writes 0, so its records count as
-- waiting for their start until they are moved, which lists by access do first.

DROP INDEX subscriptions_of_class;
DROP INDEX subscriptions_of_class_by_renewal;
DROP INDEX subscriptions_of_plan;
DROP INDEX subscriptions_of_plan_by_renewal;
DROP INDEX subscriptions_access_changes;
DROP INDEX subscriptions_access_changed;
ALTER TABLE subscriptions DROP COLUMN access_class;
ALTER TABLE subscriptions DROP COLUMN access_changes_at;
ALTER TABLE subscriptions DROP COLUMN access_changed_at;

UPDATE subscriptions SET access_phase = CASE WHEN ends_at <= updated_at THEN 4 ELSE 3 END
WHERE access_phase = 0 AND (starts_at <= updated_at OR ends_at <= updated_at);

-- A status that grants access, followed by ~ before the start and by . after the end; or any other
-- status. Blocked subscriptions have a ! instead.
ALTER TABLE subscriptions ADD COLUMN access_class TEXT GENERATED ALWAYS AS (
    CASE
        WHEN blocked THEN status || '!'
        WHEN status <> 'active' AND status <> 'on_trial' AND status <> 'past_due' AND status <> 'cancelled' THEN status
        WHEN (access_phase = 2 OR access_phase = 4) AND ends_at IS NOT NULL THEN status || '.'
        WHEN access_phase = 0 THEN status || '~'
        ELSE status
    END) VIRTUAL;
-- When the class changes next by time alone.
ALTER TABLE subscriptions ADD COLUMN access_changes_at INTEGER GENERATED ALWAYS AS (
    CASE
        WHEN blocked THEN NULL
        WHEN status <> 'active' AND status <> 'on_trial' AND status <> 'past_due' AND status <> 'cancelled' THEN NULL
        WHEN (access_phase = 2 OR access_phase = 4) AND ends_at IS NOT NULL THEN NULL
        WHEN access_phase = 0 THEN starts_at
        ELSE ends_at
    END) VIRTUAL;
-- When it last did.
ALTER TABLE subscriptions ADD COLUMN access_changed_at INTEGER GENERATED ALWAYS AS (
    CASE
        WHEN blocked THEN NULL
        WHEN status <> 'active' AND status <> 'on_trial' AND status <> 'past_due' AND status <> 'cancelled' THEN NULL
        WHEN access_phase = 2 THEN ends_at
        WHEN access_phase = 1 THEN starts_at
    END) VIRTUAL;

CREATE INDEX subscriptions_of_class ON subscriptions (access_class, id);
CREATE INDEX subscriptions_of_class_by_renewal ON subscriptions (access_class, renews_order, id);
CREATE INDEX subscriptions_of_plan ON subscriptions (subscription_plan_id, access_class, id);
CREATE INDEX subscriptions_of_plan_by_renewal
    ON subscriptions (subscription_plan_id, access_class, renews_order, id);
CREATE INDEX subscriptions_access_changes ON subscriptions (access_changes_at)
    WHERE access_changes_at IS NOT NULL;
CREATE INDEX subscriptions_access_changed ON subscriptions (access_changed_at)
    WHERE access_changed_at IS NOT NULL;
