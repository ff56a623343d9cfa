import struct

from launch.report.pictures import Line, Panel, draw, thin


def test_any_text_is_drawn_and_panels_lie_side_by_side():
    hostile = "_<b> $\\frac{ \\ $x$"
    lines = [
        Line(hostile, [(0.0, 1.0), (2.0, 3.0)]),
        Line("", [(1.0, 1.0)]),
        Line(hostile, [(0.0, 0.0)], is_steps=True),
    ]
    one, two = (draw([Panel(hostile, hostile, lines, goal=2.0)] * num, hostile) for num in (1, 2))
    widths = [struct.unpack(">I", png[16:20])[0] for png in (one, two)]
    assert widths == [600, 1100]


def test_thinning_keeps_the_ends():
    points = [(float(x), 0.0) for x in range(100_001)]
    kept = thin(points)
    assert len(kept) <= 2002
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert thin(points[:50]) == points[:50]
