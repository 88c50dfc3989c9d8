"""Coding agents: where each keeps its settings, and what is written there for it.

Idea: an agent is found, wired and unwired by plans; nothing here writes. Invariant: wiring twice
is wiring once, and entries of other people are not touched. Trap: an agent's files are also
written by the agent itself, all day.
"""
