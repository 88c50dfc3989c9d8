"""Wire formats: what a request holds, without decoding what was seen before.

Idea: a request is split into the raw bytes of its messages; only new messages are decoded.
Invariant: nothing here changes a request; what is not understood is said to be so.
Trap: the fast decoder refuses lone surrogates, numbers out of range and deep nesting, which real
agents send; the standard library's takes most of them, so it is the second try.
"""
