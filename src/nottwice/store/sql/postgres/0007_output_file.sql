-- Schema version 7: the output of a step.
--
-- output_file  the file that the step named as its output; NULL: it named none

ALTER TABLE nottwice.steps ADD COLUMN output_file text COLLATE "C";
