"""What an agent's session hooks run: register, recall, keep.

Idea: ask the running proxy over its Unix socket; without it do the work here.
Invariant: exit 0 with valid output, always; standard library only.
Trap: every import is paid on every prompt.
"""
