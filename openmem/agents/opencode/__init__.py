"""OpenCode: opencode.jsonc or .json, a plug-in, MCP, a base URL for each provider in use.

Idea: what is written follows from trials with the real program (docs/reference/opencode.md).
Invariant: an entry is ours if it holds our launcher's name or our route; a provider of the person's
keeps its keys and models. Trap: OpenCode does not start at all with a settings file that it cannot
read, and adds its `$schema` line to one without by itself.
"""
