"""Plans: the facts that each member of a session is made from, and checks that the session fits on this machine."""
