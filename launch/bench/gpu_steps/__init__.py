"""Steps of the GPU check (`laser bench gpu`): what each measures, and how they run under their deadlines.

A step is a function of a `Context`, in a process of its own (`child.py`). `plan.py` lists the steps with their time,
`runner.py` starts and ends them, `entries.py` keeps what they say, `table.py` turns that into a table.
"""
