"""`nottwice demo`: an agent is killed, with and without nottwice."""
