"""What a person writes: the models of a declaration, how it is loaded, and what is said when it is wrong."""

from stampworks.declaration.errors import DeclarationError, Problem
from stampworks.declaration.loader import Source, load_file, load_stack, load_value
from stampworks.declaration.models import Change, Declaration
from stampworks.declaration.schema import change_of, schema
from stampworks.declaration.wording import did_you_mean

__all__ = [
    "Change",
    "Declaration",
    "DeclarationError",
    "Problem",
    "Source",
    "change_of",
    "did_you_mean",
    "load_file",
    "load_stack",
    "load_value",
    "schema",
]
