"""Plans: what each member of a session is made from, computed once, and whether it fits on this machine."""
