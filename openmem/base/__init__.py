"""The floor everything stands on: plain values and functions of the standard library.

Idea: what every pillar needs and none owns (errors, paths, clock, settings, the policy gate,
redaction). Invariant: nothing here prints, reads a global or imports another part of openmem.
Trap: the agent's hooks import from here, so every import costs each prompt its milliseconds.
"""
