"""`make bench-plugins` reports which plugins keep the limit, and exits with an error if one does
not. Nothing is timed here.
"""

import pytest

from loadtest import plugins


@pytest.mark.parametrize(
    ("each", "verdict", "code"),
    [
        (110.0, "FiltersEach: 10.0 x columns, at most 10 x: within the limit", 0),
        (112.0, "FiltersEach: 10.2 x columns, at most 10 x: over the limit", 1),
    ],
)
def test_the_exit_code_goes_by_the_ratio_that_is_printed(each, verdict, code, monkeypatch, capsys):
    took = {"": 10.0, **{kind.__name__: 20.0 for pair in plugins.PAIRS for kind in pair}}
    monkeypatch.setattr(plugins, "measured", lambda: took | {"FiltersEach": each})
    assert plugins.main() == code
    told = capsys.readouterr().out
    assert verdict in told
    assert told.count("within the limit") == 3 - code


def test_a_figure_that_is_noise_is_not_taken_for_a_good_one(monkeypatch, capsys):
    took = {"": 10.0, **{kind.__name__: 20.0 for pair in plugins.PAIRS for kind in pair}}
    monkeypatch.setattr(plugins, "measured", lambda: took | {"Scores": 9.0})
    assert plugins.main() == 1
    assert "over the limit" in capsys.readouterr().out
