"""Bytes in, bytes out: edits that keep a person's formatting, one module per file format.

Idea: an edit touches the span it must and nothing else, so taking it out gives back the bytes of
before. Invariant: what an edit made is parsed again and compared with what was meant before
anybody writes it. Trap: a file that does not parse is refused, never treated as empty.
"""
