"""The mutation check: the pure modules are changed, one small change at a time, and their tests have to notice each.

A change that no test notices is a promise that no test proves. Such survivors are either killed by a new test or judged
once, in `tests/mutants/<group>.toml`; the check fails on a survivor that is not judged there, and on a judged one that no
longer survives. mutmut makes the changes and runs the tests; only `engine` imports it, in a process of its own.
"""
