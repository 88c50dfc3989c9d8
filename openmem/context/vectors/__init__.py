"""Vectors of stored rows, off by default: what a person's own endpoint says a row means.

Idea: an OpenAI-compatible endpoint turns the head of each row into numbers, in the background; they
are kept packed in one file beside the session, and a search by meaning reads that file from end to
end, which costs a millisecond for ten thousand rows.
Invariant: no vector outlives the text it was made from: each carries the digest of its row's text,
forgetting removes it, and one that does not fit its row any more is passed over.
Trap: a row's words are sent to that endpoint. Nothing is sent unless the person named a model, and
to another machine only where policy lets this workspace be retained.
"""
