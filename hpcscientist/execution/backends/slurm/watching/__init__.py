"""Follows array tasks to their ends, by the queue, accounting and the files they write."""
