"""A provider's containers: compose files, the engine, ports."""
