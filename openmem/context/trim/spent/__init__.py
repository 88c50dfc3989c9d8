"""Bodies of tool calls that a later call made worthless, left out together with a cut.

Idea: when a cut is made the cache is written anew anyway, so what nobody needs any more goes with
it: reads and edits of a file that was read or edited again, the older of two equal questions, spent
to-do states. The call stays and keeps its path; the body becomes one marker that names its row.
Invariant: chosen at a cut, stored with it, and rendered from that alone ever after. A body goes
only when its row holds it word for word. The newest view, edit and to-do state of each are whole.
Trap: a model copies what it sees into its next call. So a marker is never a shortened value: it is
one sentence under a name that no tool knows, and a hook refuses a call that carries it all the
same. And clients answer a second read with "unchanged since your last": that is no newer view.
Source: issue 4, part 6; users' reports 431 and 250 of another system.
"""
