"""Pictures in cells and their differences."""

from __future__ import annotations

from ccltui.draw.planes import Planes


def test_put_cleans_and_cuts_at_the_edges() -> None:
    planes = Planes.blank(2, 6, 0)

    end = planes.put(0, 3, "a\x1bbcd", 5)
    planes.put(1, -2, "xyz", 4)
    planes.put(7, 0, "nowhere", 4)

    assert end == 8
    assert planes.row_text(0) == "   a␛b"
    assert planes.row_text(1) == "z     "
    assert planes.runs(0) == [("   ", 0), ("a␛b", 5)]


def test_paste_is_cut_at_the_edges() -> None:
    planes, patch = Planes.blank(2, 4, 0), Planes.blank(2, 3, 7)

    planes.paste(patch, 1, 2)

    assert planes.style.tolist() == [[0, 0, 0, 0], [0, 0, 7, 7]]


def test_changes_join_short_gaps_and_part_at_long_ones() -> None:
    before, after = Planes.blank(3, 30, 0), Planes.blank(3, 30, 0)
    after.put(1, 2, "a", 0)
    after.put(1, 5, "b", 0)
    after.put(1, 20, "c", 0)
    after.style[2, 29] = 1

    assert after.changes_from(before) == [(1, 2, 6), (1, 20, 21), (2, 29, 30)]
    assert after.changes_from(after) == []
    assert after.changes_from(Planes.blank(3, 31, 0)) is None
