"""Hindsight: facts drawn from texts by a model, on a server with PostgreSQL.

Idea: one document for each memory, under our id, because only a document can be deleted for good.
Invariant: the same text under the same id is taken in once, however often it is told.
Trap: texts are taken in later; what is deleted meanwhile would come back.
"""
