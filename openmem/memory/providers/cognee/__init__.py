"""Cognee: texts as files of a dataset, found as chunks, beside a graph that a model draws.

Idea: a memory is one file; it is found by its chunks, never by an answer that a model makes up.
Invariant: a text travels as a file part only; as a form field, a path or an address in it would be
opened by the server. Trap: the same bytes twice are one item there, so each file ends with its id.
"""
