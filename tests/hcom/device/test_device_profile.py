import math

import pytest
import yaml

from hcom.device import LinkClass, load_profile, profile_names
from hcom.errors import ConfigError

MEBIBYTE = 1 << 20


@pytest.fixture
def fields():
    """The fields of a sound profile file, to be spoilt one at a time."""
    return {
        "name": "own",
        "description": "two cores and a wire",
        "sources": ["measured"],
        "npus_per_server": 2,
        "compute": {"cores": 2, "clock": 1e9, "flops_per_cycle": {"float32": 16}},
        "launch": 1e-6,
        "memory": {"bytes": 1 << 30, "bandwidth": 1e10},
        "gamma": 0.0,
        "links": {"wire": {"kind": "pair", "alpha": 1e-6, "bandwidth": 1e9}},
        "within_server": "wire",
        "between_servers": "wire",
    }


def write(tmp_path, fields):
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(fields))
    return path


def message_for(path):
    with pytest.raises(ConfigError) as caught:
        load_profile(path)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_the_profiles_of_the_design_are_there():
    assert profile_names() == ["a100", "ascend910_93", "ascend910b", "this-machine", "unit"]


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_carries_its_name_and_sources(name):
    profile = load_profile(name)
    assert profile.name == name
    assert profile.description
    assert profile.sources
    assert profile.within_server in profile.links.values()
    assert profile.between_servers in profile.links.values()


def test_the_peak_of_the_910b_is_what_published_linearity_implies():
    # About 1420 PFLOP/s on 7968 NPUs at an MFU of 50.5 %.
    implied = 1420e15 / 7968 / 0.505
    assert load_profile("ascend910b").peak("bfloat16") == pytest.approx(implied, rel=0.005)


@pytest.mark.parametrize(
    ("nbytes", "microseconds"),
    [(65536, 20.29), (MEBIBYTE, 24.68), (16 * MEBIBYTE, 94.90), (256 * MEBIBYTE, 1218.37)],
)
def test_a_mesh_all_reduce_on_the_910b_costs_what_the_reference_table_says(nbytes, microseconds):
    link = load_profile("ascend910b").within_server
    ranks = load_profile("ascend910b").npus_per_server
    assert link.kind == "pair"
    cost = 2 * link.alpha + 2 * nbytes / ranks * link.beta
    assert cost * 1e6 == pytest.approx(microseconds, abs=0.006)


@pytest.mark.parametrize(("nbytes", "microseconds"), [(65536, 304.92), (16 * MEBIBYTE, 1558.29)])
def test_a_ring_over_16_ports_on_the_910b_costs_what_the_reference_table_says(nbytes, microseconds):
    link = load_profile("ascend910b").between_servers
    assert link.kind == "port"
    cost = 2 * 15 * (link.alpha + nbytes / 16 * link.beta)
    assert cost * 1e6 == pytest.approx(microseconds, abs=0.006)


def test_the_a100_has_its_published_peaks():
    profile = load_profile("a100")
    assert profile.peak("bfloat16") == pytest.approx(312e12, rel=1e-3)
    assert profile.peak("float32") == pytest.approx(19.5e12, rel=1e-3)


def test_in_the_unit_profile_only_the_phases_cost():
    profile = load_profile("unit")
    assert profile.launch == profile.gamma == profile.within_server.alpha == 0
    assert profile.within_server.beta == profile.between_servers.beta == 0
    assert math.isinf(profile.peak("float32"))
    assert math.isinf(profile.bandwidth)
    assert [profile.phase_time(phase) for phase in ("F", "I", "W", "B")] == [1, 1, 1, 2]
    assert profile.phase_time("optimizer") == 0


def test_a_profile_without_phases_lets_them_cost_what_their_operators_cost():
    assert load_profile("ascend910b").phase_seconds is None
    assert load_profile("ascend910b").phase_time("F") == 0


def test_a_file_of_ones_own_is_loaded_by_its_path(tmp_path, fields):
    profile = load_profile(write(tmp_path, fields))
    assert profile.peak("float32") == 2 * 1e9 * 16
    assert profile.links == {"wire": LinkClass("wire", "pair", 1e-6, 1e9)}


def test_a_dtype_without_a_peak_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"ascend910b has no peak for dtype 'float64'.*float32"):
        load_profile("ascend910b").peak("float64")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda f: f.update(lanch=1.0), ("lanch", "not permitted")),
        (lambda f: f.pop("launch"), ("launch", "required")),
        (lambda f: f.update(launch=-1e-6), ("launch", "-1e-06")),
        (lambda f: f.update(launch=math.nan), ("launch", "finite")),
        (lambda f: f.update(launch="soon"), ("launch", "number", "'soon'")),
        (lambda f: f.update(npus_per_server=0), ("npus_per_server", "greater than 0")),
        (lambda f: f["memory"].update(bandwidth=0), ("memory.bandwidth", "greater than 0")),
        (lambda f: f["memory"].update(bandwidth=math.nan), ("memory.bandwidth",)),
        (lambda f: f["links"]["wire"].update(kind="bus"), ("links.wire.kind", "'bus'", "pair")),
        (lambda f: f.update(within_server="tube"), ("within_server", "'tube'", "wire")),
        (lambda f: f.update(phase_seconds={"F": 1, "I": 1}), ("phase_seconds.W", "required")),
    ],
)
def test_a_wrong_field_is_named_in_one_line(tmp_path, fields, spoil, words):
    spoil(fields)
    text = message_for(write(tmp_path, fields))
    for word in ("own.yaml", *words):
        assert word in text


@pytest.mark.parametrize("text", ["", "- a list", "just text", "a: [1", "a: 1\na: : 2"])
def test_a_file_that_is_no_mapping_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "own.yaml"
    path.write_text(text)
    assert "own.yaml" in message_for(path)


def test_a_missing_file_is_named(tmp_path):
    assert "none.yaml" in message_for(tmp_path / "none.yaml")


def test_an_unknown_name_is_refused_with_the_known_ones():
    text = message_for("ascend910c")
    assert "'ascend910c'" in text
    assert "ascend910b" in text
