"""Entry point of the plugin for the engine: `python -m stampworks.provider ENGINE`."""

import asyncio
import sys

from stampworks.provider.handlers import PACKAGE
from stampworks.provider.server import serve

asyncio.run(serve(PACKAGE, engine_address=next((word for word in sys.argv[1:] if not word.startswith("-")), "")))
