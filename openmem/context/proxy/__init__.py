"""The proxy between an agent and its model API.

Idea: bytes pass unchanged; a copy is parsed, redacted and stored off the event loop.
Invariant: any fault of ours passes the original request on.
Trap: a stream must never wait for us, but for its last byte and at most two seconds.
"""
