-- Which lock file a holder has locked, schema version 7.
--
-- lock_file  device and inode; a free byte of another file does not prove a holder dead

ALTER TABLE holders ADD COLUMN lock_file TEXT;
