-- Schema version 5: the parent of a call, for a tool that calls other tools.
--
-- parent_call_id   the call whose body made this one; NULL: the code of the run did

ALTER TABLE nottwice.tool_call_results ADD COLUMN parent_call_id text COLLATE "C";
