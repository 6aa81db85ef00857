-- Access classes that cost writes less.
--
-- The expressions mean what they meant. SQLite builds a table in memory for each `IN` with more than two values in a
-- generated column: three for an INSERT and nine for an UPDATE. Comparisons need none. A generated column
-- cannot be changed, so the columns and their indexes are made anew under the same names.

DROP INDEX subscriptions_of_class;
DROP INDEX subscriptions_of_class_by_renewal;
DROP INDEX subscriptions_of_plan;
DROP INDEX subscriptions_of_plan_by_renewal;
DROP INDEX subscriptions_access_changes;
DROP INDEX subscriptions_access_changed;
ALTER TABLE subscriptions DROP COLUMN access_class;
ALTER TABLE subscriptions DROP COLUMN access_changes_at;
ALTER TABLE subscriptions DROP COLUMN access_changed_at;

-- A status that grants access, followed by ~ before the start and by . after the end; or any other
-- status. Blocked subscriptions have a ! instead.
ALTER TABLE subscriptions ADD COLUMN access_class TEXT GENERATED ALWAYS AS (
    CASE
        WHEN blocked THEN status || '!'
        WHEN status <> 'active' AND status <> 'on_trial' AND status <> 'past_due' AND status <> 'cancelled' THEN status
        WHEN access_phase = 2 AND ends_at IS NOT NULL OR ends_at <= updated_at THEN status || '.'
        WHEN access_phase = 0 AND starts_at > updated_at THEN status || '~'
        ELSE status
    END) VIRTUAL;
-- When the class changes next by time alone.
ALTER TABLE subscriptions ADD COLUMN access_changes_at INTEGER GENERATED ALWAYS AS (
    CASE
        WHEN blocked THEN NULL
        WHEN status <> 'active' AND status <> 'on_trial' AND status <> 'past_due' AND status <> 'cancelled' THEN NULL
        WHEN access_phase = 2 AND ends_at IS NOT NULL OR ends_at <= updated_at THEN NULL
        WHEN access_phase = 0 AND starts_at > updated_at THEN starts_at
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
