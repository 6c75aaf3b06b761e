-- Schema version 14: which traces show a run.
--
-- Additive.
--
-- traceparent   a trace context, as W3C writes it; NULL: not traced. Of an opening: the span about it. Of an
--               event: what its sender did. Of a run: the newest of its openings, or what enqueued it

ALTER TABLE nottwice.runs ADD COLUMN traceparent text COLLATE "C";
ALTER TABLE nottwice.openings ADD COLUMN traceparent text COLLATE "C";
ALTER TABLE nottwice.events ADD COLUMN traceparent text COLLATE "C";
