"""The suites that need real daemons or much time: `.ci/full`.

Standard library only, and outside `tests`: it runs before anything is installed, makes the clone
and the environment in which pytest runs, and outlives a pytest that dies. `recorder` alone runs
inside pytest.

`main` reads the command line, `session` takes the suites, `side_by_side` some at once, `suite_run`
one: its folder, services and pytest processes; `retrying` says what is tried again. `catalogue`:
which test belongs to which suite. `rooms`: namespaces that end all in them. `leftovers`: what an
earlier run left. `services`: clone, environment, engine, cluster. `logs`: what daemons said during
a case. `records` and `table`: what came of it.
"""
