"""Which step is the code in, and has it drifted from the ledger?"""
