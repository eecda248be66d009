"""A terminal in memory: what a person sees after a program has written, with a scrolling region and a saved cursor.

It knows the control sequences that `driver/terminal/live.py` writes, and refuses others (ECMA-48, DEC VT100). Text
wraps at the last column as terminals do it, with the next letter.
"""

from __future__ import annotations

import io
import os
import re

_SEQUENCE = re.compile(r"\x1b(?:\[(?P<private>\??)(?P<numbers>[0-9;]*)(?P<letter>[A-Za-z])|(?P<short>[78D]))")


class SmallTerminal(io.StringIO):
    """A terminal of some columns and rows.

    Attributes:
        rows: What is on the screen, without blanks at the ends of lines.
        scrolled: What has left the screen at the top, oldest first: the scrollback.
    """

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__()
        self.columns = columns
        self._cells = [[" "] * columns for _ in range(rows)]
        self.scrolled: list[str] = []
        self._row = self._column = 0
        self._saved = (0, 0)
        self._region = (0, rows - 1)

    @property
    def rows(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._cells]

    def size(self) -> os.terminal_size:
        return os.terminal_size((self.columns, len(self._cells)))

    def isatty(self) -> bool:
        return True

    def resize(self, columns: int, rows: int) -> None:
        """Become larger or smaller, as most terminals do: rows are taken and given at the top, and nothing is wrapped."""
        self._cells = [(row + [" "] * columns)[:columns] for row in self._cells]
        self.columns = columns
        while len(self._cells) > rows:
            self.scrolled.append("".join(self._cells.pop(0)).rstrip())
            self._row = max(0, self._row - 1)
        while len(self._cells) < rows:
            returned = self.scrolled.pop() if self.scrolled else ""
            self._cells.insert(0, list(returned.ljust(columns)[:columns]))
            self._row += 1
        self._region = (0, rows - 1)

    def write(self, text: str) -> int:
        place = 0
        while place < len(text):
            found = _SEQUENCE.match(text, place)
            if found is not None:
                self._control(found)
                place = found.end()
            else:
                self._letter(text[place])
                place += 1
        return len(text)

    def _letter(self, letter: str) -> None:
        assert letter != "\x1b", "an unknown sequence"
        if letter == "\n":
            self._column = 0
            self._down()
        elif letter == "\r":
            self._column = 0
        else:
            if self._column == self.columns:
                self._letter("\n")
            self._cells[self._row][self._column] = letter
            self._column += 1

    def _down(self) -> None:
        top, bottom = self._region
        if self._row == bottom:
            left = "".join(self._cells.pop(top)).rstrip()
            self._cells.insert(bottom, [" "] * self.columns)
            if top == 0:
                self.scrolled.append(left)
        elif self._row < len(self._cells) - 1:
            self._row += 1

    def _control(self, found: re.Match[str]) -> None:
        numbers = [int(number) for number in (found["numbers"] or "").split(";") if number]
        match found["short"] or f"{found['private']}{found['letter']}":
            case "7":
                self._saved = (self._row, self._column)
            case "8":
                self._row, self._column = self._saved
            case "D":
                self._down()
            case "A":
                self._row = max(0, self._row - numbers[0])
            case "H":
                self._row, self._column = numbers[0] - 1, numbers[1] - 1
            case "r":
                top, bottom = numbers or (1, len(self._cells))
                self._region, self._row, self._column = (top - 1, bottom - 1), 0, 0
            case "K":
                assert numbers == [2]
                self._cells[self._row] = [" "] * self.columns
            case "J":
                self._cells[self._row][self._column :] = [" "] * (self.columns - self._column)
                for row in range(self._row + 1, len(self._cells)):
                    self._cells[row] = [" "] * self.columns
            case "m" | "?l" | "?h":
                pass
            case other:
                raise AssertionError(f"an unknown sequence: {other}")
