"""The sessions that agents keep on disk, read as streams of what was said.

Idea: one reader an agent, told by content, not by the file's name. Invariant: a reader never
writes, and one bad line never hides another. Trap: every format grows with its agent's versions;
a record is taken only where it is known to say something.
"""
