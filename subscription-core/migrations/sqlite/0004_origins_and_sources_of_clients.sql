-- The web origins whose pages may call as a client; whether it came by a command or from a settings file;
-- and since when that file names it no longer.
--
-- Where the clients of before came from was not kept. Those that a settings file names belong to it
-- from the next start on.

ALTER TABLE clients ADD COLUMN origins TEXT NOT NULL DEFAULT '[]';
ALTER TABLE clients ADD COLUMN source TEXT NOT NULL DEFAULT 'command';
ALTER TABLE clients ADD COLUMN left_at INTEGER;
