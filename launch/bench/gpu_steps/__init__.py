"""Steps of the GPU check (`laser bench gpu`): their measurements, and their processes, which have deadlines.

A step is a function of a `Context`, in a process of its own (`child.py`). `plan.py` lists the steps with their time,
`runner.py` starts and ends them, `entries.py` keeps their results, `table.py` makes a table of these.
"""
