"""Old turns out of an oversized request, behind a pointer, without breaking the prompt cache.

Idea: one decision per request. A request either renders the stored cut, byte for byte as before,
or makes a new cut and renders that; everything that waits (strip, compression, gap) moves only
together with a new cut.
Invariant: bytes leave only with the pointer that covers them; the view is a pure function of the
stored state and of the request; kept blocks keep their bytes; no tool call loses its result.
Trap: a thinking block is signed over everything before it. What is kept from before the cut goes
out without thinking, all of it; what is made on the trimmed view stays until the next cut.
Source: context-store contract, Trim; the decision table in docs/explanation/trim.md.
"""
