-- What a step wrote, schema version 8.
--
-- output_file  the file that the step named as its output; NULL: it named none

ALTER TABLE steps ADD COLUMN output_file TEXT;
