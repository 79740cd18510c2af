"""`hcom-tool schedule` as a user calls it."""

import json
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from hcom.algorithms import algorithms, build
from hcom.schedule import parse
from launch.tools.schedule import app


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_show_prints_the_text_form_that_parses_back():
    result = call("show", "all_reduce", "--algorithm", "ring", "--ranks", 4)
    assert result.exit_code == 0
    assert parse(result.stdout) == build("all_reduce", "ring", 4)


def test_a_shown_schedule_is_read_from_its_file(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text(call("show", "broadcast", "-a", "mesh(slices=2)", "-n", 5, "--root", 3).stdout)
    result = call("check", "broadcast", "-a", f"file:{file}")
    assert result.exit_code == 0
    assert result.stdout.startswith("broadcast ranks=5 chunks=10 root=3 name=mesh(slices=2): right")


def test_check_goes_through_every_algorithm_by_default():
    result = call("check", "all_reduce", "--ranks", 6)
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == len(algorithms("all_reduce"))


def test_a_wrong_schedule_is_a_finding_in_one_line(tmp_path):
    file = tmp_path / "wrong.txt"
    file.write_text("all_reduce ranks=2 chunks=1\n0 | c0:0+>1\n")
    for command in ("check", "price", "draw"):
        result = call(command, "all_reduce", "-a", f"file:{file}")
        assert result.exit_code == 1
        assert len(result.stderr.splitlines()) == 1
        assert "at the end rank 0 holds chunk 0 of ranks {0}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "all_sum"], "no collective 'all_sum'; there are: all_reduce"),
        (["show", "all_reduce", "-a", "rung"], "no algorithm 'rung' for all_reduce; there are:"),
        (["show", "all_reduce", "-a", "ring(size=2)"], "ring all_reduce has no option 'size'"),
        (["show", "all_reduce", "-a", "ring(2)"], "an algorithm is a name, or like"),
        (["show", "all_reduce", "-a", "ring", "-n", 0], "rank_size is at least 1, not 0"),
        (["check", "broadcast", "--root", 4], "root is a rank, 0 to 3, not 4"),
        (["check", "all_reduce", "-a", "file:absent.txt"], "absent.txt"),
        (["price", "all_reduce", "--bytes", "3Q"], "not '3Q'"),
        (["price", "all_reduce", "--servers", 3], "--servers divides the 4 ranks"),
        (["price", "all_reduce", "--profile", "abacus"], "profile 'abacus' does not exist"),
    ],
)
def test_a_wrong_request_is_one_line_and_status_2(arguments, said):
    result = call(*arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert said in result.stderr


def test_price_lists_the_cheapest_first_and_fits_a_terminal():
    result = call("price", "all_reduce", "--ranks", 16, "--bytes", "64K")
    assert result.exit_code == 0
    assert "all_reduce of 64 KiB on 16 ranks in 2 server(s)" in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    for name in algorithms("all_reduce"):
        assert f" {name} " in result.stdout


def test_price_gives_records_to_machines():
    result = call("price", "all_gather", "-n", 16, "--servers", 4, "--bytes", "1M", "--json")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert {record["algorithm"] for record in records} == set(algorithms("all_gather"))
    times = [record["time_s"] for record in records]
    assert times == sorted(times)
    ring = next(record for record in records if record["algorithm"] == "ring")
    # 16 ranks pass 15 blocks each; one rank in four sends to another server.
    assert ring["bytes_per_link"] == {"hccs": 12 * 15 * 2**16, "roce": 4 * 15 * 2**16}
    assert ring["critical_path"][-1]["end"] == ring["time_s"]


def test_draw_writes_one_arrow_a_message(tmp_path):
    file = tmp_path / "ring.svg"
    assert call("draw", "all_reduce", "-a", "ring", "-n", 4, "-o", file).exit_code == 0
    picture = ElementTree.parse(file).getroot()
    tips = [t.text for t in picture.iter("{http://www.w3.org/2000/svg}title")]
    rounds = build("all_reduce", "ring", 4).rounds
    assert sorted(tips) == sorted(str(t) for round in rounds for t in round)
    assert call("draw", "all_reduce", "-a", "ring", "-n", 4).stdout.strip() == (
        file.read_text().strip()
    )
