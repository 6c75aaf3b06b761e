"""The command line: calls the rooms below and shows what they say."""
