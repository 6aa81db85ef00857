-- The plans that subscriptions are scheduled to change to.
--
-- The release before this one still runs on these tables. It schedules no change of plan, so its rows need no value
-- here. It does not look at this column: until it is gone, it deletes a plan that is only scheduled.

-- That of the change in `billing`, for its index. NULL: no change of plan is scheduled.
ALTER TABLE subscriptions ADD COLUMN scheduled_plan_id BLOB;

-- For the guard of an unused plan.
CREATE INDEX subscriptions_to_plan ON subscriptions (scheduled_plan_id) WHERE scheduled_plan_id IS NOT NULL;
