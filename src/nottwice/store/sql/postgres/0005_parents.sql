-- Parents, schema version 5: which call made a call, for a tool that calls others.
--
-- parent_call_id   the call whose body made this one; NULL: the code of the run did

ALTER TABLE nottwice.tool_call_results ADD COLUMN parent_call_id text COLLATE "C";
