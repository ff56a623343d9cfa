"""Recorded runs as they lie on disk: finding them, their records, their newest numbers and their curves.

Reads only, and whatever state a run is in: the dashboard and the report both stand on it.
"""
