"""What becomes of a copy: from bytes on their way to rows in the store.

Idea: `link` and `job` run in the proxy and hand copies over; `process` runs in a process of its
own and does all parsing, redaction and SQLite; `frames` is what they speak.
Invariant: nothing in here can fail or delay a request, and nothing is written before `gate` said
yes.
Trap: the proxy's side must stay cheap: it shares its thread with every stream.
"""
