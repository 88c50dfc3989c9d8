"""Where memories live: one protocol, several providers, one registry.

Idea: a provider stores texts under our ids and finds them again; trust, time, scope and tombstones
are the ledger's, and filter what any provider returns.
Invariant: what a provider cannot do it says, by the name of the capability; never an empty success.
Trap: hooks load the chosen provider on every prompt; it stays on the standard library.
"""
