"""A provider's containers: compose and env files, the engine, ports.

Idea: what is to run is rendered into the stack folder as a plan; the engine is asked over its
socket, and `docker compose` carries out. Invariant: nothing is published but on 127.0.0.1, data
stand in named volumes that nothing here removes unasked, and no secret is in a compose file.
Trap: a compose file that a person edited is theirs: it is refused, never rendered over.
"""
