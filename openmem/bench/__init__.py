"""Measurements of openmem beside the floor that physics and the libraries set, in the same run.

The idea: a figure alone says little on a machine that others use too, so each is taken in turns
with its floor and given as a ratio or a difference of medians. The invariant: what is measured is
what a person runs, as processes, in a HOME of its own, on loopback. The trap: nothing here may be
imported by the parts it measures.
"""
