"""mem0's own server: texts in PostgreSQL with pgvector, kept as they are or drawn out by a model.

Idea: a bank is a user there, a memory a run, so that exactly one memory can be listed and removed.
Invariant: nothing is removed but by its own id; there is no call here that removes by a filter,
the dropping of a bank aside. Trap: whether a model draws facts out is a setting; without it, the
same text twice is there twice.
"""
