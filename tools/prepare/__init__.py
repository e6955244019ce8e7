"""Set-up: brings a machine to where `make demo` and `make test` run. Standard library only."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Nothing is installed yet. The project's own modules that need only the standard library can be used all the same.
sys.path.insert(0, str(ROOT / "components"))
