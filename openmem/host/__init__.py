"""The running proxy as a process: worker, supervisor, service files.

Idea: the supervisor holds the listening socket, the worker serves it; either may die.
Invariant: whoever connects is served once a worker is up again; no process outlives its owner.
Trap: this floor wires the context pillar to hooks and memory; the proxy itself knows neither.
"""
