"""Where SQL and patterns that a model wrote run: a child process with nothing to lose.

Idea: a statement is checked as text, then run in a child that has a read-only connection, an
authorizer, limits on memory and time, no environment and no open files of ours, and that is
killed at its deadline. Regular expressions run in the same child, because one hard pattern can
take longer than the universe has.
Invariant: no answer takes longer than its deadline, and no file changes.
Trap: every layer alone has a hole. A progress handler never sees a single long function call; a
file-size limit of zero breaks a WAL database; an FTS5 table opened under an authorizer fails, so
each is touched before the authorizer is set. Source: measured, `docs/explanation/sandbox.md`.
"""
