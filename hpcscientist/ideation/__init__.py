"""Proposals (by a model or by the control arm) and the bank that rejects look-alikes."""
