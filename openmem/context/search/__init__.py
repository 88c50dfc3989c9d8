"""Finding rows again: words, patterns, counts, always within a scope the policy allows.

Idea: `engine.search` for one search, `engine.Searcher` for a daemon; both read only.
Invariant: results of our own tools and our own texts are not found unless asked for.
Trap: callers decide which scope and which explicit session policy grants; nothing here asks it.
"""
