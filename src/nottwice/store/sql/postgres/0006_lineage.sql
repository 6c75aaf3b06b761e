-- Schema version 6: the history of the ledger. After a failover or a restore, a database may lack
-- commits that were reported as durable. postgres/failover.py uses these columns to notice that.
--
-- lineage         one row for each database that the ledger has been in, newest last
--   origin        the system identifier and the timeline of the server
-- holders.asked   the mark of a copy (an audit entry) for which this holder has not vouched yet

CREATE TABLE nottwice.lineage (
  arrival  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  origin   text COLLATE "C" NOT NULL,
  seen_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE nottwice.holders ADD COLUMN asked text COLLATE "C";

DO $$
BEGIN
  INSERT INTO nottwice.lineage (origin)
    SELECT system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
      FROM pg_control_system();
EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN
  -- Some hosted databases do not say. Then only living processes can notice.
  NULL;
END
$$;
