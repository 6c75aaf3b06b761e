"""`check --smoke`: does the upstream of a tool honour its key?"""
