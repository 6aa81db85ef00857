-- Metadata of plans, subscriptions and payments; the events of one record.
--
-- The release before this one still runs on these tables: its inserts leave the metadata empty, and its
-- updates do not touch it.

-- A JSON object of texts, its keys in the order in which they were sent, so TEXT and not JSONB. NULL: none.
ALTER TABLE plans ADD COLUMN metadata TEXT;
ALTER TABLE subscriptions ADD COLUMN metadata TEXT;
ALTER TABLE payments ADD COLUMN metadata TEXT;
-- That of the record in the answer, which is JSONB there.
ALTER TABLE answers ADD COLUMN metadata TEXT;

-- The events of one record, in order. An event enters the index when it gets its sequence, so a commit
-- writes nothing to it.
CREATE INDEX events_of_subject ON events ((subject ->> 'id'), sequence) WHERE sequence IS NOT NULL;
