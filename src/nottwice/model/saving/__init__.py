"""How is the state of a run saved, version by version?"""
