-- Schema version 12: the keys of all tables that hold rows of runs begin with the run, so that a
-- distributed database can keep the rows of a run together (docs/internals/beyond-one-database.md).
--
-- charges    a call is charged once per meter. The run is part of the call's id, so this key says the same
-- run_tags   an index finds the runs of a tag
-- outbox     the run is part of a notice's id
--
-- One index remains that is unique over all runs: reviews_id. People type the id of a review.

ALTER TABLE nottwice.charges DROP CONSTRAINT charges_pkey;
ALTER TABLE nottwice.charges ADD PRIMARY KEY (workflow_id, meter, call_id);

ALTER TABLE nottwice.run_tags DROP CONSTRAINT run_tags_pkey;
ALTER TABLE nottwice.run_tags ADD PRIMARY KEY (workflow_id, tag);
DROP INDEX nottwice.run_tags_run;
CREATE INDEX run_tags_tag ON nottwice.run_tags (tag, workflow_id);

ALTER TABLE nottwice.outbox DROP CONSTRAINT outbox_pkey;
ALTER TABLE nottwice.outbox ADD PRIMARY KEY (workflow_id, notice_id);
DROP INDEX nottwice.outbox_run;
