"""The last rows of a terminal are kept for the display; everything else scrolls above them and is lost nowhere."""

from __future__ import annotations

import io
import os

from smallterminal import SmallTerminal
from statefulspark.driver.terminal.live import Screen

PANEL = ("-- words", "rate 5")


def _at(terminal: SmallTerminal) -> Screen:
    return Screen(terminal, terminal.size)


def test_the_display_is_below_the_log_and_the_log_goes_on_above_it() -> None:
    terminal = SmallTerminal(20, 6)
    terminal.write("first\n")

    screen = _at(terminal)
    screen.draw(PANEL)
    terminal.write("second\n")
    screen.draw(PANEL)

    assert terminal.rows == ["first", "second", "", "", *PANEL]


def test_a_log_longer_than_the_terminal_goes_into_the_scrollback() -> None:
    terminal = SmallTerminal(20, 6)
    screen = _at(terminal)

    for number in range(10):
        screen.draw(PANEL)
        terminal.write(f"line {number}\n")
    screen.draw(PANEL)

    assert terminal.scrolled == [f"line {number}" for number in range(7)]
    assert terminal.rows == ["line 7", "line 8", "line 9", "", *PANEL]


def test_a_line_that_is_not_complete_is_continued_where_it_was() -> None:
    terminal = SmallTerminal(20, 6)
    screen = _at(terminal)
    terminal.write("12:00 loa")

    screen.draw(PANEL)
    terminal.write("ding\n")

    assert terminal.rows[0] == "12:00 loading"


def test_a_full_terminal_makes_room_for_the_display() -> None:
    terminal = SmallTerminal(20, 6)
    terminal.write("\n".join(f"line {number}" for number in range(6)))

    _at(terminal).draw(PANEL)

    assert terminal.scrolled == ["line 0", "line 1"]
    assert terminal.rows == ["line 2", "line 3", "line 4", "line 5", *PANEL]


def test_what_was_longer_before_leaves_nothing_behind() -> None:
    terminal = SmallTerminal(20, 6)
    screen = _at(terminal)

    screen.draw(("-- words", "a long line of text"))
    screen.draw(PANEL)

    assert terminal.rows[-2:] == list(PANEL)


def test_more_and_fewer_lines_move_the_border() -> None:
    terminal = SmallTerminal(20, 8)
    screen = _at(terminal)
    terminal.write("log\n")

    screen.draw((*PANEL, "error"))
    assert terminal.rows == ["log", "", "", "", "", *PANEL, "error"]
    screen.draw(PANEL)

    assert terminal.rows == ["log", "", "", "", "", "", *PANEL]


def test_a_terminal_that_is_made_larger_or_smaller_has_one_display_at_its_end() -> None:
    terminal = SmallTerminal(20, 8)
    screen = _at(terminal)
    for number in range(9):
        screen.draw(PANEL)
        terminal.write(f"line {number}\n")

    for rows in (6, 10, 7):
        terminal.resize(16, rows)
        screen.draw(PANEL)
        terminal.write(f"now {rows}\n")
        screen.draw(PANEL)

        assert terminal.rows[-2:] == list(PANEL)
        everything = [*terminal.scrolled, *terminal.rows]
        assert everything.count(PANEL[0]) == 1
        assert [line for line in everything if line.startswith("line")] == [f"line {number}" for number in range(9)]


def test_a_terminal_without_room_shows_the_log_alone_until_there_is_room_again() -> None:
    terminal = SmallTerminal(20, 8)
    screen = _at(terminal)
    terminal.write("log\n")
    screen.draw(PANEL)

    terminal.resize(20, 4)
    screen.draw(PANEL)
    assert PANEL[0] not in terminal.rows
    terminal.resize(20, 8)
    screen.draw(PANEL)

    assert terminal.rows[-2:] == list(PANEL)


def test_the_end_gives_the_rows_back_and_the_last_sentence_is_below_the_log() -> None:
    terminal = SmallTerminal(20, 6)
    screen = _at(terminal)
    terminal.write("log\n")
    screen.draw(PANEL)

    screen.close()
    screen.close()
    terminal.write("ended: stopped\n" + "x\n" * 5)

    assert [line for line in (*terminal.scrolled, *terminal.rows) if line] == ["log", "ended: stopped", *"xxxxx"]


def test_what_was_never_drawn_writes_nothing_at_its_end() -> None:
    terminal = io.StringIO()

    Screen(terminal, lambda: os.terminal_size((80, 24))).close()

    assert terminal.getvalue() == ""


def test_a_terminal_without_a_character_shows_a_question_mark() -> None:
    written = io.BytesIO()
    terminal = io.TextIOWrapper(written, encoding="ascii")

    Screen(terminal, lambda: os.terminal_size((80, 24))).draw(("── words",))

    assert b"?? words" in written.getvalue()
