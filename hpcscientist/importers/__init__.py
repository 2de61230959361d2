"""Importers that turn tasks in other tools' formats into recipes; they execute none of a task."""
