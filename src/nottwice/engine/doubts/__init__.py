"""A call may have happened, but this is not proven: how does a doubt end?"""
