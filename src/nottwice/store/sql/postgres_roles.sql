-- Who may do what in a ledger on PostgreSQL. Run it once, as the user who owns the ledger or as a
-- superuser, after the ledger was opened for the first time, and again after an upgrade of nottwice
-- that changed the schema. It is harmless to repeat.
--
-- nottwice_reader     looks: dashboards, auditors, hot standbys
-- nottwice_operator   decides reviews and sends events, and leaves an audit entry; touches no row of
--                     the ledger itself, so it cannot forge a receipt
-- nottwice_writer     drives runs: agents and workers. What identifies a call, its arguments, class
--                     and key cannot be changed by it once they were written (P9); evidence, audit
--                     and graphs can only be added to
-- nottwice_keeper     may remove what is expired, and nothing by itself: for whoever runs nottwice gc,
--                     together with nottwice_writer
-- (the owner)         whoever made the schema: changes it when nottwice is upgraded
--
-- Roles are groups without a login: GRANT nottwice_writer TO my_agent;

DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['nottwice_reader', 'nottwice_operator', 'nottwice_writer',
                              'nottwice_keeper'] LOOP
    BEGIN
      EXECUTE format('CREATE ROLE %I NOLOGIN', name);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL;
    END;
  END LOOP;
END
$$;

REVOKE ALL ON SCHEMA nottwice FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA nottwice
  FROM PUBLIC, nottwice_reader, nottwice_operator, nottwice_writer, nottwice_keeper;
GRANT USAGE ON SCHEMA nottwice
  TO nottwice_reader, nottwice_operator, nottwice_writer, nottwice_keeper;
GRANT SELECT ON ALL TABLES IN SCHEMA nottwice
  TO nottwice_reader, nottwice_operator, nottwice_writer;

-- Deciding. ready_at says that a worker should look at the run: a look too many does no harm.
GRANT UPDATE (status, version, decision_json, closed_by, closed_at, seal)
  ON nottwice.reviews TO nottwice_operator, nottwice_writer;
GRANT INSERT ON nottwice.audit, nottwice.events TO nottwice_operator, nottwice_writer;
-- Each of them may be the first to meet a database that was failed over to.
GRANT INSERT ON nottwice.lineage TO nottwice_operator, nottwice_writer;
GRANT UPDATE (asked) ON nottwice.holders TO nottwice_operator, nottwice_writer;
GRANT UPDATE (ready_at) ON nottwice.runs TO nottwice_operator;

-- Driving runs.
GRANT INSERT ON nottwice.tool_call_results, nottwice.runs, nottwice.steps, nottwice.reviews,
  nottwice.evidence, nottwice.checkpoints, nottwice.graphs, nottwice.holders,
  nottwice.charges TO nottwice_writer;
GRANT UPDATE (status, attempt, attempt_id, holder_id, started_at, finished_at, retry_at, ambiguous,
  settled_by, result_kind, result_json, failure_json, past_json, writes, seal)
  ON nottwice.tool_call_results TO nottwice_writer;
GRANT UPDATE ON nottwice.runs, nottwice.checkpoints TO nottwice_writer;
GRANT DELETE ON nottwice.checkpoints TO nottwice_writer;
GRANT UPDATE (status, finished_at, failure_json, output_file, seal) ON nottwice.steps
  TO nottwice_writer;
GRANT UPDATE (received_by, received_at, seal) ON nottwice.events TO nottwice_writer;
GRANT UPDATE (at, amount, if_failed, seal) ON nottwice.charges TO nottwice_writer;
GRANT UPDATE (lease_until) ON nottwice.holders TO nottwice_writer;
-- Functions act with the rights of whoever calls them, so it does no harm that others may, too.
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA nottwice TO nottwice_writer;

-- Removing. Audit entries and tombstones can be removed by nobody.
GRANT DELETE ON nottwice.tool_call_results, nottwice.steps, nottwice.reviews, nottwice.evidence,
  nottwice.checkpoints, nottwice.events TO nottwice_keeper;
