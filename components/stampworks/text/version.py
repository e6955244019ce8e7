"""Version of Stampworks, written only here.

pyproject.toml reads it for the wheel. The plugin and the programs that ask for it import it, so that they agree even in
a clone with an environment of an earlier version. Standard library only, so that every room may import it.
"""

VERSION = "0.2.0"
