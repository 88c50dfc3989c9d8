"""The memory half: what is known about a project, over one provider, with a ledger of our own.

Idea: policy, then redaction, then ledger, then provider, for every verb.
Invariant: standard library only; a forgotten statement never comes back.
Trap: hooks import this on every prompt.
"""
