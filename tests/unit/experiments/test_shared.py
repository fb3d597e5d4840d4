"""What experiments share: their command, turns and ratios, counts of cases, and tables of what they found."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from support.messages import line_with

from experiments.shared.experiment import Experiment, Flags
from experiments.shared.results import cell_of, markdown
from experiments.shared.rounds import in_turn, quiet_spread, ratios, scores, spread
from experiments.shared.tally import Tally
from gsplit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class TwiceConfig(Flags):
    """Double a number."""

    number: int = 1
    """The number."""
    quick: bool = False
    """Take a small one."""


def test_a_command_parses_measures_shows_and_writes(tmp_path, capsys):
    command = Experiment("twice", TwiceConfig, lambda config: [{"twice": 2 * config.number}])
    file = tmp_path / "out.json"
    command(["--number", "21", "--json", str(file)])
    assert json.loads(file.read_text()) == [{"twice": 42}]
    assert capsys.readouterr().out == "\n| twice |\n| --- |\n| 42 |\n"
    assert command.prog == "python -m experiments.twice"


def test_quick_has_defaults_of_its_own_and_flags_count_more():
    command = Experiment("twice", TwiceConfig, list, quick=TwiceConfig(number=5, quick=True))
    assert command.parse([]).number == 1
    assert command.parse(["--quick"]).number == 5
    assert command.parse(["--quick", "--number", "6"]).number == 6


def test_what_is_wrong_is_the_exit_code_and_is_written_all_the_same(tmp_path):
    command = Experiment(
        "twice", TwiceConfig, lambda config: {"wrong": config.number}, wrong=lambda f: f["wrong"] > 1
    )
    command([])
    with pytest.raises(SystemExit) as end:
        command(["--number", "2", "--json", str(tmp_path / "out.json")])
    assert end.value.code == 1
    assert json.loads((tmp_path / "out.json").read_text()) == {"wrong": 2}


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path):
    command = Experiment("twice", TwiceConfig, lambda config: pytest.fail("it measured"))
    with pytest.raises(InputError, match=line_with("--json")):
        command(["--json", str(tmp_path / "no" / "out.json")])


def test_each_round_begins_with_the_next_contender():
    assert [in_turn("abc", number) for number in range(4)] == [[*"abc"], [*"bca"], [*"cab"], [*"abc"]]
    assert in_turn([], 3) == []


def test_ratios_are_of_one_round_and_quiet_ones_are_given_beside_all():
    assert ratios([2.0, 9.0], [1.0, 3.0]) == [2.0, 3.0]
    assert spread([3.0, 1.0, 2.0], "seconds") == {"seconds": 2.0, "seconds_min": 1.0, "seconds_max": 3.0}
    found = quiet_spread([(1.0, True), (5.0, False), (3.0, True)])
    assert (found["ratio"], found["rounds"], found["quiet_ratio"], found["quiet_rounds"]) == (3.0, 3, 2.0, 2)
    assert quiet_spread([(1.0, False)])["quiet_ratio"] is None
    assert scores([0.5], "our_") == {"our_mean": 0.5, "our_stdev": None, "our_scores": [0.5]}


def test_problems_are_counted_with_zeros_for_those_that_never_came(capsys):
    tally = Tally(["hangs", "crashes"], ["refused"])
    tally.add(0, "case 0", "refused", {}, 3.0)
    tally.add(1, "case 1", -9, {"crashes": "by SIGKILL"}, 1.0)
    crash = {"number": 1, "case": "case 1", "problem": "crashes", "what": "by SIGKILL"}
    counted = {"hangs": 0, "crashes": 1}
    assert tally.record() == {"cases": 2, "counted": counted, "ends": {"refused": 1, "-9": 1}, "found": [crash]}
    assert tally.slowest_s == 3.0
    assert capsys.readouterr().out == "crashes: case 1\n    by SIGKILL\n"


def test_values_become_lines_and_lists_of_rows_tables_wherever_they_stand():
    rows = [{"way": "a|b", "moved_bytes": 2048}, {"way": "c", "share": 0.123456, "met": True}]
    found = {"seed": 0, "settings": {"fan_out": [4, 3]}, "none": [], "nested": [{"size": 1024, "rows": rows}]}
    head = "| way | moved_bytes | share | met |\n| --- | --- | --- | --- |\n"
    table = head + "| a/b | 2.0 KiB | - | - |\n| c | - | 0.1235 | yes |"
    assert markdown(found) == (
        "settings: fan_out 4,3\nseed 0, none \n\n" + "## nested\n\nsize 1,024\n\n## rows\n\n" + table
    )
    assert cell_of("edges_per_second", 12345678.9) == "12,345,679"
    assert cell_of("by_size", {1024: 0.5, "none": []}) == "1024 0.5, none "
