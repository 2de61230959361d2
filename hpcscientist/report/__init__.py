"""Renders the views: terminal table, live view, HTML report. Nothing is computed here."""
