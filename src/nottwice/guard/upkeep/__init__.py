"""How is a ledger read, copied, verified and cleaned up by a program?"""
