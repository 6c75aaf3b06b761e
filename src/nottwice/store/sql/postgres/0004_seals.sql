-- Schema version 4: seals, which prove that nottwice wrote a row.
--
-- seal     the id of a key, and a MAC over the content of the row; NULL: no key was given
-- nth      the number of a call among the calls of its run, in the order they were written
-- writes   how often the row of a call was written
-- head     what the calls and checkpoints of a run add up to, with a separate MAC

ALTER TABLE nottwice.tool_call_results ADD COLUMN nth bigint NOT NULL DEFAULT 0;
ALTER TABLE nottwice.tool_call_results ADD COLUMN writes bigint NOT NULL DEFAULT 1;
ALTER TABLE nottwice.tool_call_results ADD COLUMN seal text COLLATE "C";
ALTER TABLE nottwice.runs ADD COLUMN seal text COLLATE "C";
ALTER TABLE nottwice.runs ADD COLUMN head text COLLATE "C";
ALTER TABLE nottwice.steps ADD COLUMN seal text COLLATE "C";
ALTER TABLE nottwice.reviews ADD COLUMN seal text COLLATE "C";
ALTER TABLE nottwice.evidence ADD COLUMN seal text COLLATE "C";
ALTER TABLE nottwice.audit ADD COLUMN seal text COLLATE "C";
ALTER TABLE nottwice.checkpoints ADD COLUMN seal text COLLATE "C";
ALTER TABLE nottwice.events ADD COLUMN seal text COLLATE "C";
ALTER TABLE nottwice.graphs ADD COLUMN seal text COLLATE "C";
ALTER TABLE nottwice.charges ADD COLUMN seal text COLLATE "C";
