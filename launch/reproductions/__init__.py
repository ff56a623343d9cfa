"""Figures and tables of the papers as runs: a file for each, and the command that runs, draws and judges them."""
