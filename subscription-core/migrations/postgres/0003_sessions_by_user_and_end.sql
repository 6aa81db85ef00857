-- The live sessions of a user, and the ended ones by their end: a sign-in reads no others.
CREATE INDEX sessions_of_user_by_end ON sessions (user_id, ended_at, id);
DROP INDEX sessions_of_user;

-- Accounts whose deletion is under way, to be finished after a restart.
CREATE INDEX users_closing ON users (id) WHERE closing;
