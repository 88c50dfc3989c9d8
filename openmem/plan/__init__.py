"""Every write on the person's machine, as data first.

Idea: a plan is resolved to bytes when it is made; what was shown is what is written.
Invariant: a file that differs from what the plan saw is refused and nothing is written.
Trap: agents rewrite their own settings while we work; compare again right before replacing.
"""
