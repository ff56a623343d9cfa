"""Recorded runs on disk: finding them, their records, their newest numbers and their curves.

The dashboard and the report read runs through this package, whatever state a run is in.
"""
