"""Renderers of the views: terminal table, live view, HTML report. They compute nothing."""
