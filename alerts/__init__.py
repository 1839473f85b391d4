"""Deciding what to tell, and telling it."""
