"""Logs of episodes, out of a saved replay: `laser replay export`."""
