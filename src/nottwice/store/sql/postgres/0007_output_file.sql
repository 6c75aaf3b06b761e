-- What a step wrote, schema version 7.
--
-- output_file  the file that the step named as its output; NULL: it named none

ALTER TABLE nottwice.steps ADD COLUMN output_file text COLLATE "C";
