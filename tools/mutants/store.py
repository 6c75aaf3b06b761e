"""Mutants of ``store``: what is durable, and from when on."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

STORE: tuple[Mutant, ...] = (
    Mutant(
        name="a signal handler waits for the commit that it interrupted",
        file="store/shared.py",
        old="        elif self._main_commits and self._lead.locked():\n",
        new="        elif False:\n",
        tests=(
            "tests/store/test_shared.py"
            "::test_a_signal_handler_does_not_wait_for_the_commit_that_it_interrupted",
        ),
        why="The process would hang forever, and keep all others out of the ledger.",
    ),
    Mutant(
        name="writes of an earlier epoch are let through (memory, JSON files)",
        file="store/rules.py",
        old="    if run is not None and run.epoch == fence.epoch:\n",
        new="    if run is not None:\n",
        tests=("tests/store/test_memory.py::test_commit_soon_never_raises_itself",),
        why="A holder that was overtaken and came back would write.",
    ),
    Mutant(
        name="a row that is gone can be updated (memory, JSON files)",
        file="store/rules.py",
        old=(
            "    if write.after is not None:\n"
            '        raise Outdated(f"call {row.call_id} is gone")\n'
        ),
        new="",
        tests=("tests/store/test_memory.py::test_commit_soon_never_raises_itself",),
        why="A receipt would appear for an intent that was removed.",
    ),
    Mutant(
        name="a review of another run can be overwritten (memory, JSON files)",
        file="store/rules.py",
        old="    if (version != write.after_version or not same_run) and",
        new="    if version != write.after_version and",
        tests=(
            "tests/store/test_conformance.py"
            "::TestMemory::test_a_review_id_that_another_run_has_is_not_taken_over",
        ),
        why="A decision would reach another run.",
    ),
    Mutant(
        name="a step that is done can be begun again (memory, JSON files)",
        file="store/rules.py",
        old=("    if known.status is not StepStatus.DONE:\n        data.steps"),
        new=("    if known is not None:\n        data.steps"),
        tests=("tests/store/test_conformance.py::TestMemory::test_a_step_that_is_done_stays_done",),
        why="What is done would count as in progress.",
    ),
    Mutant(
        name="a stored key is replaced by a new one (memory, JSON files)",
        file="store/rules.py",
        old="for name in _CHANGING})",
        new='for name in (*_CHANGING, "key", "key_since")})',
        tests=(
            "tests/store/test_conformance.py"
            "::TestMemory::test_what_identifies_a_stored_call_is_never_changed",
        ),
        why="A reissue would be another request upstream.",
    ),
    Mutant(
        name="a charge may exceed its limit by itself (memory, JSON files)",
        file="store/rules.py",
        old="    if shown + charge.amount > at_most:\n",
        new="    if shown > at_most:\n",
        tests=(
            "tests/store/test_conformance.py"
            "::TestMemory::test_a_charge_is_there_with_its_intent_and_is_the_last_that_fits",
        ),
        why="Every limit could be passed once.",
    ),
    Mutant(
        name="one key may be used for two requests (memory, JSON files)",
        file="store/rules.py",
        old="        if other.identity.input_hash != row.identity.input_hash:\n",
        new="        if other is row:\n",
        tests=(
            "tests/store/test_conformance.py"
            "::TestMemory::test_one_key_with_two_different_arguments_is_refused",
        ),
        why="The upstream would answer the second with the first's result.",
    ),
    Mutant(
        name="new effects are not held back by open reviews (memory, JSON files)",
        file="store/rules.py",
        old=("    if commit.unless_blocked and data.reviews:\n        waiting"),
        new=("    if commit.unless_blocked is None:\n        waiting"),
        tests=(
            "tests/store/test_conformance.py"
            "::TestMemory::test_a_commit_can_be_refused_while_a_review_is_open",
        ),
        why="New effects would overtake a doubt.",
    ),
    Mutant(
        name="a commit without a fence may write calls",
        file="store/interface.py",
        old="        if self.fence is None and not self._may_be_said_by_all():\n",
        new="        if self.fence is None and self.calls is None:\n",
        tests=("tests/store/test_interface.py::test_only_a_holder_writes_calls_steps_and_status",),
        why="A process that does not hold the run could write a receipt.",
    ),
    Mutant(
        name="a removal may name calls of another run",
        file="store/interface.py",
        old=("            named.extend(identity.workflow_id for identity in self.removal.calls)\n"),
        new="",
        tests=(
            "tests/store/test_interface.py"
            "::test_a_commit_writes_to_the_run_it_names_and_to_no_other",
        ),
        why="Receipts of a living run could be removed.",
    ),
    Mutant(
        name="a run that is under way can be removed",
        file="store/rules.py",
        old="    if known is None or known.status in (RunStatus.RUNNING, RunStatus.WAITING):\n",
        new="    if known is None:\n",
        tests=(
            "tests/store/test_conformance.py"
            "::TestMemory::test_only_a_run_that_is_over_and_as_it_was_seen_is_removed",
        ),
        why="Its receipts would be gone while it runs.",
    ),
    Mutant(
        name="an event can be taken twice",
        file="store/rules.py",
        old="    return known.received_by in (None, event.received_by)\n",
        new="    return True\n",
        tests=("tests/store/test_conformance.py::TestMemory::test_an_event_is_taken_once",),
        why="Two calls would both act upon one event.",
    ),
    Mutant(
        name="a tombstone can be claimed",
        file="store/interface.py",
        old="    if known is not None and known.status is RunStatus.REMOVED:\n",
        new="    if known is not None and known.status is None:\n",
        tests=(
            "tests/store/test_conformance.py"
            "::TestMemory::test_a_removed_run_is_never_claimed_again",
        ),
        why="Its receipts are gone, so its effects would be made again.",
    ),
    Mutant(
        name="open reviews do not hold back the usual commit (SQLite)",
        file="store/sql/sqlite.sql",
        old="""AND in_doubt_from <= ?)
   AND NOT EXISTS (SELECT 1 FROM nottwice.reviews INDEXED BY nottwice_reviews_blocking
                    WHERE workflow_id = ? AND status IN ('open', 'decided')
                      AND (kind NOT IN ('question', 'approval')
                           OR instr(decision_json, '"abort"') > 0))
ON CONFLICT DO NOTHING

-- :quick_receipt""",
        new="""AND in_doubt_from <= ?)
   AND length(?) > 0
ON CONFLICT DO NOTHING

-- :quick_receipt""",
        tests=(
            "tests/store/sqlite/test_quick.py"
            "::test_the_quick_way_starts_nothing_while_a_review_is_open",
        ),
        why="New effects would overtake a doubt.",
    ),
    Mutant(
        name="a step that is done can be begun again",
        file="store/sql/shared.sql",
        old=" WHERE {_steps_status} <> 'done'\n",
        new=" WHERE true\n",
        tests=("tests/store/test_conformance.py::TestSqlite::test_a_step_that_is_done_stays_done",),
        why="What is done would count as in progress.",
    ),
    Mutant(
        name="the usual commit does not look for the same key elsewhere (SQLite)",
        file="store/sqlite/quick.py",
        old="        if row.key is not None or not commit.unless_blocked or",
        new="        if not commit.unless_blocked or",
        tests=("tests/store/sqlite/test_quick.py::test_whatever_carries_more_goes_the_long_way",),
        why="The upstream would answer the second request with the first's result.",
    ),
    Mutant(
        name="the usual commit of an overtaken epoch is let through (SQLite)",
        file="store/sql/sqlite.sql",
        old="epoch = ? AND holder_id = ?)\n\n-- The same for",
        new="epoch >= ? AND holder_id = ?)\n\n-- The same for",
        tests=(
            "tests/store/sqlite/test_quick.py"
            "::test_the_quick_way_writes_nothing_for_who_is_not_the_holder",
        ),
        why="A holder that was overtaken and came back would write.",
    ),
    Mutant(
        name="a receipt may follow another attempt's intent (SQLite)",
        file="store/sql/sqlite.sql",
        old="""AND input_hash = ? AND status = 'PENDING' AND attempt_id = ?
   AND EXISTS (SELECT 1 FROM nottwice.runs
                WHERE workflow_id = ? AND epoch = ? AND holder_id = ?)

-- The same for""",
        new="""AND input_hash = ? AND status = 'PENDING' AND attempt_id >= substr(?, 1, 0)
   AND EXISTS (SELECT 1 FROM nottwice.runs
                WHERE workflow_id = ? AND epoch = ? AND holder_id = ?)

-- The same for""",
        tests=(
            "tests/store/sqlite/test_quick.py::test_the_quick_way_follows_only_what_its_writer_saw",
        ),
        why="Two attempts would write over each other.",
    ),
    Mutant(
        name="a batch that was broken off counts as done",
        file="store/shared.py",
        old="            return [CommitUnknown(text) for _ in batch]\n",
        new="            return [None for _ in batch]\n",
        tests=(
            "tests/store/test_shared.py"
            "::test_when_a_batch_breaks_no_caller_believes_in_success_or_failure",
        ),
        why="An effect would be made without a durable intent.",
    ),
    Mutant(
        name="commits that wait are forgotten when the store closes",
        file="store/shared.py",
        old=("        if self._waiting:\n            # Their"),
        new=("        if self._waiting is None:\n            # Their"),
        tests=(
            "tests/store/test_shared.py::test_closing_commits_what_a_stopped_loop_has_asked_for",
        ),
        why="What was to be durable would be lost.",
    ),
    Mutant(
        name="a new file is renamed before it is synced",
        file="store/files/disk.py",
        old="                _write_all(descriptor, piece)\n            sync(descriptor)\n",
        new="                _write_all(descriptor, piece)\n",
        tests=(
            "tests/store/files/test_disk.py"
            "::test_a_file_that_cannot_be_synced_does_not_take_the_place_of_the_old_one",
        ),
        why="A power cut would leave an empty ledger.",
    ),
    Mutant(
        name="the name of a new journal is not synced",
        file="store/files/disk.py",
        old="            sync_folder(path.parent)\n        whole = ",
        new="            pass\n        whole = ",
        tests=(
            "tests/store/files/test_disk.py"
            "::test_the_name_of_a_new_journal_is_durable_before_its_first_line_is_reported",
        ),
        why="A power cut would take the journal away with all that it says.",
    ),
    Mutant(
        name="zeros that a power cut left are read as a line",
        file="store/files/disk.py",
        old='    return start if b"\\0" in content[start:end] else end\n',
        new="    return end\n",
        tests=(
            "tests/store/files/test_disk.py"
            "::test_what_a_crash_cut_short_is_no_line_and_the_next_writer_cuts_it_off",
        ),
        why="The ledger could not be read any more.",
    ),
    Mutant(
        name="a link is followed out of the ledger's folder",
        file="store/files/disk.py",
        old="open_file(path, flags | os.O_NOFOLLOW)",
        new="open_file(path, flags)",
        tests=(
            "tests/store/files/test_disk.py::test_a_link_in_the_place_of_an_inbox_is_not_followed",
        ),
        why="A file outside of the ledger would be written.",
    ),
    Mutant(
        name="a file of the ledger takes the number of a standard stream",
        file="store/machine/descriptors.py",
        old="    occupy_standard_streams()\n    return",
        new="    return",
        tests=(
            "tests/store/machine/test_descriptors.py"
            "::test_what_is_written_to_a_closed_standard_stream_is_not_written_into_the_ledger",
        ),
        why="What a library writes to standard error would overwrite the ledger.",
    ),
    Mutant(
        name="half a line stays before the next one",
        file="store/files/disk.py",
        old=("        os.ftruncate(descriptor, whole)\n        try:\n"),
        new="        try:\n",
        tests=(
            "tests/store/files/test_disk.py"
            "::test_what_a_crash_cut_short_is_no_line_and_the_next_writer_cuts_it_off",
        ),
        why="A crash and the next commit together would make the journal unreadable.",
    ),
    Mutant(
        name="a path may lead out of its folder",
        file="store/machine/confined_files.py",
        old='any(part in ("", ".", "..") for part in parts)',
        new='any(part in ("", ".") for part in parts)',
        tests=(
            "tests/store/machine/test_confined_files.py::test_a_path_that_leads_elsewhere_is_refused",
        ),
        why="A model could write anywhere.",
    ),
    Mutant(
        name="a link on the way to a file is followed",
        file="store/machine/confined_files.py",
        old="_FOLDER | os.O_NOFOLLOW, dir_fd=where",
        new="_FOLDER, dir_fd=where",
        tests=(
            "tests/store/machine/test_confined_files.py::test_no_link_is_followed_for_reading_either",
        ),
        why="A model could write anywhere.",
    ),
    Mutant(
        name="a ledger may lie on a network drive",
        file="store/machine/filesystem.py",
        old="    if kind in NETWORK:\n",
        new="    if kind is None and kind in NETWORK:\n",
        tests=("tests/store/machine/test_filesystem.py::test_a_network_drive_is_refused",),
        why="Two machines could drive one run.",
    ),
    Mutant(
        name="a file of several names is accepted",
        file="store/machine/filesystem.py",
        old="os.stat(path).st_nlink > 1:",
        new="os.stat(path).st_nlink > 2:",
        tests=(
            "tests/store/machine/test_filesystem.py"
            "::test_a_file_with_a_second_name_is_refused_and_with_one_it_is_not",
        ),
        why="SQLite would keep two logs for one ledger.",
    ),
    Mutant(
        name="without the key, rows are written beside sealed ones",
        file="store/sealing.py",
        old="        if self.seals is None:\n            raise KeyMissing(\n",
        new="        if False:\n            raise KeyMissing(\n",
        tests=(
            "tests/guard/upkeep/test_seals.py::test_without_the_key_nothing_is_written_to_a_sealed_run",
        ),
        why="What is written would never be believed.",
    ),
    Mutant(
        name="a call that is put back to what it said before is not found",
        file="store/sealing.py",
        old="    elif writes != said.writes:\n",
        new="    elif writes < 0 * said.writes:\n",
        tests=(
            "tests/guard/upkeep/test_seals.py"
            "::test_a_row_that_was_put_back_to_what_it_said_before_is_noticed",
        ),
        why="A receipt could be turned into an intent again.",
    ),
    Mutant(
        name="a row that is not believed is sealed again with its next change",
        file="store/sealing.py",
        old="        if self._sealing.flaw(CALLS, found) is not None:\n",
        new="        if self._sealing.flaw(CALLS, found) is None and found is None:\n",
        tests=(
            "tests/guard/upkeep/test_seals.py"
            "::test_a_receipt_does_not_vouch_for_an_intent_that_was_changed_meanwhile",
        ),
        why="A forged row would become believed.",
    ),
    Mutant(
        name="a log that was removed is not missed when its ledger is closed",
        file="store/sqlite/connections.py",
        old="and self.files.is_missed():\n",
        new="and self.files.stale:\n",
        tests=(
            "tests/store/sqlite/test_lost.py"
            "::test_a_process_that_only_ends_after_its_log_was_removed_has_its_runs_held",
        ),
        why="Runs that went with the log would be done again.",
    ),
    Mutant(
        name="a log that was renamed is not missed",
        file="store/sqlite/locks.py",
        old='if not self._is_at("-wal", self._log):\n',
        new="if not os.fstat(self._log).st_nlink:\n",
        tests=(
            "tests/store/sqlite/test_lost.py"
            "::test_a_log_that_alone_was_removed_renamed_or_emptied_is_missed",
        ),
        why="Commits would go to a file that no other process finds.",
    ),
    Mutant(
        name="a log that was emptied is not missed",
        file="store/sqlite/locks.py",
        old="== _NO_FRAME or os.pread(",
        new=">= _NO_FRAME or os.pread(",
        tests=(
            "tests/store/sqlite/test_lost.py"
            "::test_a_log_that_alone_was_removed_renamed_or_emptied_is_missed",
        ),
        why="A restart would ignore all that is in the log.",
    ),
    Mutant(
        name="the index of a log that is gone stays",
        file="store/sqlite/lost.py",
        old="        files.remove_index_without_log()\n",
        new="        files.log_in_place()\n",
        tests=(
            "tests/store/sqlite/test_lost.py"
            "::test_a_log_that_alone_was_removed_renamed_or_emptied_is_missed",
        ),
        why="No process could open the ledger and have its runs held.",
    ),
    Mutant(
        name="an old log takes one more commit",
        file="store/sqlite/commits.py",
        old="was_removed = not files.in_place()\n",
        new="was_removed = False\n",
        tests=(
            "tests/store/sqlite/test_lost.py"
            "::test_a_full_log_that_was_removed_is_not_moved_into_the_ledger",
        ),
        why="An old log would be written over what others have committed since.",
    ),
    Mutant(
        name="a connection to files that are gone is closed",
        file="store/sqlite/connections.py",
        old="            _leave_open(connection)\n",
        new="            connection.close()\n",
        tests=(
            "tests/store/sqlite/test_lost.py"
            "::test_a_stale_process_writes_nothing_over_what_others_have_committed_since",
        ),
        why="An old log would be written over what others have committed since.",
    ),
    Mutant(
        name="garbage collection may reach a connection before its slot",
        file="store/sqlite/connections.py",
        old="            slot.kept_open.add(slot.connection)\n",
        new="",
        tests=(
            "tests/store/sqlite/test_connections.py"
            "::test_garbage_collection_does_not_reach_a_connection_before_its_slot",
        ),
        why="The slot decides whether a connection may be closed; and Python 3.13 would warn.",
    ),
    Mutant(
        name="a process that closes a ledger believes that it is the last one",
        file="store/sqlite/locks.py",
        old="        alone = _set(self._ledger, fcntl.F_WRLCK, _SHARED)\n",
        new="        alone = True\n",
        tests=(
            "tests/store/sqlite/test_locks.py"
            "::test_a_process_that_closes_leaves_the_log_to_another_that_has_it_open",
        ),
        why="Another process would commit into a log that no process can find.",
    ),
    Mutant(
        name="a process that comes while the log is moved away is overlooked",
        file="store/sqlite/locks.py",
        old="        if self._is_alone(keep=True) and not os.fstat",
        new="        if not os.fstat",
        tests=(
            "tests/store/sqlite/test_locks.py"
            "::test_a_process_that_closes_leaves_the_log_to_another_that_has_it_open",
        ),
        why="Another process would commit into a log that no process can find.",
    ),
    Mutant(
        name="a query does not see that the log is being moved",
        file="store/sqlite/locks.py",
        old="        return seen[32:40] + seen[96:100] + seen[128:132]\n",
        new="        return seen[32:40] + seen[96:100]\n",
        tests=(
            "tests/store/sqlite/test_locks.py"
            "::test_a_query_sees_each_way_in_which_the_log_is_moved",
        ),
        why="A result could mix old pages with new ones.",
    ),
    Mutant(
        name="a ledger of a development version is taken for one of the first release",
        file="store/sqlite/schema.py",
        old='    if "tool_call_results" in tables and first != 1:\n',
        new='    if "tool_call_results" in tables and not first:\n',
        tests=(
            "tests/store/sqlite/test_schema.py"
            "::test_a_ledger_of_a_development_version_is_refused_untouched",
        ),
        why="It would be opened, or brought forward by scripts that do not fit its tables.",
    ),
    Mutant(
        name="a batch commits although the server does not sync",
        file="store/postgres/commits.py",
        old='                    if plan.synchronous_commit == "off":\n',
        new='                    if plan.synchronous_commit == "never":\n',
        tests=(
            "tests/postgres/test_schema.py"
            "::test_commits_that_may_be_lost_are_refused_in_every_way_to_commit",
        ),
        why="A crash of the server would lose commits that were reported durable.",
    ),
    Mutant(
        name="a run that is sealed with an unknown key is written to",
        file="store/sealing.py",
        old="        if key_id is not None:\n",
        new='        if key_id == "":\n',
        tests=("tests/guard/upkeep/test_seals.py::test_another_key_is_not_this_key[sqlite]",),
        why="The processes that have the key would not trust the run any more.",
    ),
    Mutant(
        name="a folder that is older than its key is adopted without its runs",
        file="guard/upkeep/seals.py",
        old="        names.update(ledger.store.untrusted_runs())\n",
        new="        pass\n",
        tests=(
            "tests/cli/checks/test_seals.py"
            "::test_a_ledger_that_is_older_than_its_key_is_sealed_by_the_command",
        ),
        why="No command could seal JSON files from before there was a key.",
    ),
)
