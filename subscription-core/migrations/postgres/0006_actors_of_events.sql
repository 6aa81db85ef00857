-- The actor that made the change: client:shop, user:<uuid>, clock, provider:<source>, command, library. NULL for
-- events of the releases before.
ALTER TABLE events ADD COLUMN actor TEXT;
