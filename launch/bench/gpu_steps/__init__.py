"""Steps of the GPU check (`laser bench gpu`): their measurements, and their processes with deadlines.

A step is a function of a `Context`, run in a process of its own (`child.py`). `plan.py` lists the steps with their
time, `runner.py` starts and ends them, `entries.py` stores their results, `table.py` makes a table of the results.
"""
