"""Owns the facts about the Python that runs it, one a line: build directory, prefix, program, version.

The Makefile and setup.sh read them. Written so that even an old Python can run it and say that it is too old.
"""

import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("Python 3.11 or newer is needed, and " + sys.executable + " is " + sys.version.split()[0])

# The ABI flags keep a free-threaded (t) or debug (d) build apart from the plain one.
print("build/py" + ".".join(map(str, sys.version_info[:2])) + sys.abiflags)
# Of the interpreter itself, even if it was called by way of a virtual environment or a link.
print(sys.base_prefix)
print(os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]
print(sys.version.replace("\n", " "))
