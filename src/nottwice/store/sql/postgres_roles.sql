-- Roles for a ledger on PostgreSQL. Run this script once, as the user who owns the ledger or as a
-- superuser, after the ledger was opened for the first time, and again after an upgrade of nottwice
-- that changed the schema. It can be repeated safely.
--
-- nottwice_reader     reads only: for dashboards, auditors, hot standbys
-- nottwice_operator   decides reviews and sends events, and adds audit entries; it cannot write calls,
--                     so it cannot forge a receipt
-- nottwice_writer     drives runs: for agents and workers. It cannot change the identity of a call,
--                     its arguments, class or key once they are written (P9), and it can only add
--                     evidence, audit entries and graphs
-- nottwice_keeper     may delete rows, and is not enough alone: for the user that runs nottwice gc,
--                     together with nottwice_writer
-- (the owner)         the user who created the schema, and who changes it when nottwice is upgraded
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

-- Deciding. ready_at tells workers to look at the run. Looking too often does no harm.
GRANT UPDATE (status, version, decision_json, closed_by, closed_at, seal)
  ON nottwice.reviews TO nottwice_operator, nottwice_writer;
GRANT INSERT ON nottwice.audit, nottwice.events, nottwice.outbox
  TO nottwice_operator, nottwice_writer;
-- For a sender of notices.
GRANT UPDATE (leased_by, leased_until, sent_at, tries, problem) ON nottwice.outbox
  TO nottwice_operator, nottwice_writer;
-- Each of them may be the first to connect after a failover.
GRANT INSERT ON nottwice.lineage TO nottwice_operator, nottwice_writer;
GRANT UPDATE (asked) ON nottwice.holders TO nottwice_operator, nottwice_writer;
GRANT UPDATE (ready_at) ON nottwice.runs TO nottwice_operator;

-- Driving runs.
GRANT INSERT ON nottwice.tool_call_results, nottwice.runs, nottwice.steps, nottwice.reviews,
  nottwice.evidence, nottwice.checkpoints, nottwice.graphs, nottwice.holders,
  nottwice.charges, nottwice.run_tags, nottwice.openings, nottwice.tools TO nottwice_writer;
-- What is in progress under a limit. It is no part of the record.
GRANT INSERT, UPDATE, DELETE ON nottwice.limit_uses TO nottwice_writer;
-- Which workers are there. It is no part of the record either.
GRANT INSERT, DELETE ON nottwice.workers TO nottwice_writer;
GRANT UPDATE (seen_at) ON nottwice.workers TO nottwice_writer;
GRANT UPDATE (status, attempt, attempt_id, holder_id, started_at, finished_at, retry_at, ambiguous,
  settled_by, result_kind, result_json, failure_json, past_json, writes, seal)
  ON nottwice.tool_call_results TO nottwice_writer;
GRANT UPDATE ON nottwice.runs, nottwice.checkpoints TO nottwice_writer;
GRANT DELETE ON nottwice.checkpoints, nottwice.run_tags TO nottwice_writer;
GRANT UPDATE (ended_at, ended, receipts, duplicates, tokens, usd, traceparent) ON nottwice.openings
  TO nottwice_writer;
GRANT UPDATE ON nottwice.tools TO nottwice_writer;
GRANT UPDATE (status, finished_at, failure_json, output_file, seal) ON nottwice.steps
  TO nottwice_writer;
GRANT UPDATE (received_by, received_at, seal) ON nottwice.events TO nottwice_writer;
GRANT UPDATE (at, amount, if_failed, seal) ON nottwice.charges TO nottwice_writer;
GRANT UPDATE (lease_until) ON nottwice.holders TO nottwice_writer;
-- Functions run with the rights of the caller, so other users may also call them.
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA nottwice TO nottwice_writer;

-- LangGraph's checkpoints, if NottwiceSaver has created its tables here.
DO $$
BEGIN
  IF to_regclass('nottwice.langgraph_checkpoints') IS NOT NULL THEN
    GRANT INSERT, UPDATE, DELETE ON nottwice.langgraph_checkpoints, nottwice.langgraph_values,
      nottwice.langgraph_writes TO nottwice_writer;
  END IF;
END
$$;

-- Removing. No role can remove audit entries or tombstones.
GRANT DELETE ON nottwice.tool_call_results, nottwice.steps, nottwice.reviews, nottwice.evidence,
  nottwice.checkpoints, nottwice.events, nottwice.openings, nottwice.outbox TO nottwice_keeper;
