-- Access from the start until the end of a subscription, whatever its status.
--
-- `shelf` and `is_over` stay for the release before this one. Its updates leave `access_phase` as it is,
-- so an end that they cleared is looked for in the record itself.

ALTER TABLE subscriptions ADD COLUMN access_phase SMALLINT NOT NULL DEFAULT 0;
-- Subscriptions that are over by now are seen to be so at once, not by the first lists.
UPDATE subscriptions SET access_phase = 2
WHERE NOT blocked AND status IN ('on_trial', 'active', 'past_due', 'cancelled') AND ends_at <= now();

-- access_class: a status that grants access, followed by ~ before the start and by . after the end; or
-- any other status. Blocked subscriptions have a ! instead.
-- access_changes_at: when the class changes next by time alone. access_changed_at: when it last did.
-- In one statement, because each of them writes the table anew.
ALTER TABLE subscriptions
    ADD COLUMN access_class TEXT COLLATE "C" GENERATED ALWAYS AS (
        CASE
            WHEN blocked THEN status || '!'
            WHEN status NOT IN ('on_trial', 'active', 'past_due', 'cancelled') THEN status
            WHEN access_phase = 2 AND ends_at IS NOT NULL OR ends_at <= updated_at THEN status || '.'
            WHEN access_phase = 0 AND starts_at > updated_at THEN status || '~'
            ELSE status
        END) STORED,
    ADD COLUMN access_changes_at TIMESTAMPTZ GENERATED ALWAYS AS (
        CASE
            WHEN blocked OR status NOT IN ('on_trial', 'active', 'past_due', 'cancelled') THEN NULL
            WHEN access_phase = 2 AND ends_at IS NOT NULL OR ends_at <= updated_at THEN NULL
            WHEN access_phase = 0 AND starts_at > updated_at THEN starts_at
            ELSE ends_at
        END) STORED,
    ADD COLUMN access_changed_at TIMESTAMPTZ GENERATED ALWAYS AS (
        CASE
            WHEN blocked OR status NOT IN ('on_trial', 'active', 'past_due', 'cancelled') THEN NULL
            WHEN access_phase = 2 THEN ends_at
            WHEN access_phase = 1 THEN starts_at
        END) STORED;

DROP INDEX subscriptions_on_shelf;
DROP INDEX subscriptions_on_shelf_by_renewal;
DROP INDEX subscriptions_of_plan;
DROP INDEX subscriptions_of_plan_by_renewal;
DROP INDEX subscriptions_ending;
CREATE INDEX subscriptions_of_class ON subscriptions (access_class, id);
CREATE INDEX subscriptions_of_class_by_renewal ON subscriptions (access_class, renews_order, id);
CREATE INDEX subscriptions_of_plan ON subscriptions (subscription_plan_id, access_class, id);
CREATE INDEX subscriptions_of_plan_by_renewal
    ON subscriptions (subscription_plan_id, access_class, renews_order, id);
CREATE INDEX subscriptions_access_changes ON subscriptions (access_changes_at)
    WHERE access_changes_at IS NOT NULL;
CREATE INDEX subscriptions_access_changed ON subscriptions (access_changed_at)
    WHERE access_changed_at IS NOT NULL;
