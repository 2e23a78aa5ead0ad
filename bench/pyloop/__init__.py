"""The programs of the `pyloop` suite: `python -m pyloop <topic> <loop> key=value …` prints one JSON line.

A topic is a module with a function `run`, a loop a name of `loops.py`. What is measured is also checked.
"""
