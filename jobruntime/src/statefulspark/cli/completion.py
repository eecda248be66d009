"""`statefulspark completion`: print the completion of a shell."""

from __future__ import annotations

from statefulspark.commandline import commands

command = commands.completion("statefulspark")
