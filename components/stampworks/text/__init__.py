"""Text: the version, amounts, lists of names, reasons of drains, characters that are safe to print."""
