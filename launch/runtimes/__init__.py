"""Runtimes: the places where components run, as threads of this process or on Ray, on one machine or many."""
