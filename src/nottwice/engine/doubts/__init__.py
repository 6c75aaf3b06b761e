"""What may have happened and is not proven: how does a doubt end?"""
