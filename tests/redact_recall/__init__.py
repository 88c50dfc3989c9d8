"""Secrets made up from the vendors' published formats, to measure how many of them are masked.

The idea: the plants were written from what vendors say their keys look like, and from how people
write passwords down, without the rules of `openmem.base.redact` at hand; so the share that is
masked says something about keys that nobody has tested yet.
The invariant: everything is drawn from a seed; no value was ever a real key.
The trap: a plant that is changed because a rule misses it measures nothing any more.
"""
