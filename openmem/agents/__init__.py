"""One package per coding agent: detect it, plan its wiring, read its transcripts."""
