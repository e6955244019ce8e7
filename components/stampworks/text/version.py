"""The version of Stampworks: the only place where it is written.

pyproject.toml reads it from here for the wheel, and the plugin and the programs that ask for it import it, so that they
agree also in a clone whose environment was made from an earlier version. Standard library only, so that every room may
import it.
"""

VERSION = "0.2.0"
