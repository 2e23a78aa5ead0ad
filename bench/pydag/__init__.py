"""The Python programs of the `dag` suite: `python -m pydag <topic> <arm> key=value …` prints one JSON line.

`nodes`: graphs of small Python functions, by asyncio, by Dask, and inside the VM by `erlang.dag`. `redis`:
commands in flight by redis-py. What is measured is also checked.
"""
