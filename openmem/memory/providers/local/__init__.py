"""Provider `local`: one SQLite file for each bank, searched by words.

Idea: FTS5 cuts, stems and counts; the ranking is ours, over what the rarest words bring.
Invariant: a bank is a file of its own, so that no query can reach another bank, and dropping one
is removing a file.
Trap: the ranking was measured on conversations (`openmem bench recall`); do not tune it by feel.
"""
