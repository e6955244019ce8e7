"""Set-up: prepare a machine for `make demo` and `make test`. Standard library only."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# No package is installed yet, but the project's modules that need only the standard library can be imported.
sys.path.insert(0, str(ROOT / "components"))
