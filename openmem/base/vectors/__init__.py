"""Vectors of stored texts, for both halves: a person's own endpoint makes them, files hold them.

Idea: an OpenAI-compatible endpoint turns the head of each text into numbers, in the background;
they are kept packed in one file beside the store, which is read from end to end at each search.
Invariant: a vector carries the key of its text and goes with it. Trap: words are sent to that
endpoint; who may send what is the caller's to decide. Standard library, numpy where it is there.
"""
