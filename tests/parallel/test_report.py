from parallel.report import Report, highest


def record(step):
    return {"step": step, "loss": 2.5, "tokens_per_s": 12345.6, "device_s": 0.0019}


def row(group, calls, wall_s):
    counts = {"calls": calls, "bytes": 10 * calls, "wall_s": wall_s, "device_s": 1e-6}
    return {"group": group, "collective": "all_reduce", "algorithm": "ring", **counts}


def test_without_a_terminal_lines_come_now_and_then(capsys):
    report = Report(0, quiet=False)
    with report.progress(0, 300):
        for step in range(1, 301):
            report.step(record(step))
    lines = capsys.readouterr().out.splitlines()
    assert 15 <= len(lines) <= 25
    assert lines[0].split() == [
        "step",
        "1/300",
        "loss",
        "2.5000",
        "12,346",
        "tokens/s",
        "device",
        "1.900",
        "ms",
    ]
    assert lines[-1].startswith("step   300/300")


def test_other_ranks_and_quiet_runs_say_nothing(capsys):
    for report in (Report(1, quiet=False), Report(0, quiet=True)):
        with report.progress(0, 2):
            report.step(record(1))
        report.say("hello")
        report.collectives([row("pp", 1, 1.0)])
    assert capsys.readouterr().out == ""


def test_statistics_join_by_axis_and_keep_the_largest():
    rows = [row("sp", 5, 0.5), row("pp", 1, 0.1), row("sp", 3, 0.9)]
    assert highest(rows) == [row("pp", 1, 0.1), row("sp", 5, 0.9)]
    assert rows[0] == row("sp", 5, 0.5)


def test_the_table_names_what_went_where(capsys):
    Report(0, quiet=False).collectives([row("dp_sp", 1234, 0.5)])
    line = next(line for line in capsys.readouterr().out.splitlines() if "dp_sp" in line)
    for text in ("all_reduce", "ring", "1,234", "12,340", "500.0", "1.0"):
        assert text in line
