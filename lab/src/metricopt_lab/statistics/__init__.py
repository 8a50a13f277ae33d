"""Differences over seeds, and what so few of them can tell."""
