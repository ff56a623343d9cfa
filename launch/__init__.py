"""The launcher: it wires components together, runs them, and reports to the user."""
