"""The context half: every message of every session, kept verbatim and found again.

Idea: the proxy records what goes by; the store is the only record; search reads it.
Invariant: what leaves a request is in the store first; an untrimmed request is untouched.
Trap: this package imports nothing at import time, because hooks use its registrations.
"""
