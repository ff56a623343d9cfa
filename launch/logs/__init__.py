"""Logs of episodes, out of a saved replay and into one: `laser replay export` and `import`."""
