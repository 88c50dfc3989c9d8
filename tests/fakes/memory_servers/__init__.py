"""Stand-ins for the servers of Hindsight, mem0 and Cognee, strict about what they are sent.

Idea: each plays what the real server was recorded to do (facts of 2026-11-30), and nothing else:
a path, a field or a kind of value that was never recorded is a complaint, and a complaint fails
the test. Texts are found by shared words, so a test knows what is found.
Invariant: answers have the keys and statuses of the recordings; `test_as_recorded.py` compares.
"""
