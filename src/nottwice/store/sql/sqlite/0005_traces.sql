-- Schema version 5: which traces show a run.
--
-- Additive.
--
-- traceparent   a trace context, as W3C writes it; NULL: not traced. Of an opening: the span about it. Of an
--               event: what its sender did. Of a run: the newest of its openings, or what enqueued it

ALTER TABLE nottwice_runs ADD COLUMN traceparent TEXT;
ALTER TABLE nottwice_openings ADD COLUMN traceparent TEXT;
ALTER TABLE nottwice_events ADD COLUMN traceparent TEXT;
