"""The loop: conductor, journal, state, lock, wiring. Here alone do the stages meet."""
