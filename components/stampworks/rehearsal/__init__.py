"""Rehearsal of any stack in the real engine, with recording providers: without an account and without a plugin."""

from stampworks.rehearsal.engine import EngineError
from stampworks.rehearsal.phases import rehearse
from stampworks.rehearsal.result import Rehearsal
from stampworks.rehearsal.scenario import Scenario, load_scenario
from stampworks.rehearsal.stack import Stack, read_stack
from stampworks.rehearsal.text import rehearsal_text

__all__ = [
    "EngineError",
    "Rehearsal",
    "Scenario",
    "Stack",
    "load_scenario",
    "read_stack",
    "rehearsal_text",
    "rehearse",
]
