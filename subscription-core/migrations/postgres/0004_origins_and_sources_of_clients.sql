-- The web origins whose pages may call as a client; whether it came by a command or from a settings file;
-- and since when that file names it no longer.
--
-- Where the clients of before came from was not kept. Those that a settings file names belong to it
-- from the next start on.

ALTER TABLE clients
    ADD COLUMN origins JSONB NOT NULL DEFAULT '[]',
    ADD COLUMN source TEXT NOT NULL DEFAULT 'command',
    ADD COLUMN left_at TIMESTAMPTZ;
