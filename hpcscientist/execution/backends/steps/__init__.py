"""Trials as steps inside an allocation that is held anyway."""
