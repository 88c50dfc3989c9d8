"""Long streams of operations through a session, to see whether what was trimmed can be had back.

The idea: a generator after the rules of ContextBench streams batches of lines into one
conversation and asks for some of them at the end; a client behaves as Claude Code does on the
wire, a scripted model answers from its request alone or calls openmem's real tools, and a
simulation of the provider's prompt cache counts what each request costs. The invariant: the model
sees its request and the tools' results, nothing else; the gold stays with the grader. The trap: a
scripted model shows that content can be reached and counted. It cannot show that a real model
would ask for it, nor does the simulated cache prove anything of the real one.
"""
