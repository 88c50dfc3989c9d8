"""A stored session as a course of requests: what each held, cost and lost, and pictures of that.

The idea: everything is read from the session's `events`, which hold numbers and names but never
content, so a report can be shown to others. The invariant: `Course` is the only reader of events
here; replay, timeline and page are functions of it. The trap: `tokens_before` and `tokens_after` of
a trim are the writer's estimates, so what a session would have been untrimmed is one, too.
"""
