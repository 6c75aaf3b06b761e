"""What a command is given: its ledger, its application, its JSON."""
