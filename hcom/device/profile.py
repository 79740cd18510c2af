"""A device profile: the figures of one kind of NPU, its server and its links, from a YAML file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hcom.errors import ConfigError

LinkKind = Literal["pair", "port"]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0)]  # infinity is allowed: a cost of nothing
PositiveCount = Annotated[int, Field(gt=0)]


@dataclass(frozen=True, slots=True)
class LinkClass:
    """One class of links and what a message on it costs: `alpha + bytes / bandwidth` seconds.

    Attributes
    ----------
    name : what the hardware calls it.
    kind : "pair" is an own link per two ranks (a full mesh), "port" one link per rank and
        direction, which all messages of that rank share (a switched network).
    alpha : fixed cost of a message, s.
    bandwidth : one way, bytes/s; infinity where bytes cost nothing.
    """

    name: str
    kind: LinkKind
    alpha: float
    bandwidth: float

    @property
    def beta(self) -> float:
        """Cost of a byte, s."""
        return 1.0 / self.bandwidth


@dataclass(frozen=True)
class Profile:
    """The figures that the device clock counts with.

    Attributes
    ----------
    name : the profile's name.
    launch : fixed cost of starting one operator, s.
    bandwidth : device memory, bytes/s.
    memory_bytes : size of the device memory, bytes.
    peaks : dtype name -> flop/s.
    gamma : cost of reducing a byte at the receiver, s/byte.
    npus_per_server : ranks that one server holds.
    links : link name -> LinkClass.
    within_server, between_servers : the link classes inside one server and across servers.
    phase_seconds : fixed length of the pipeline phases F, I and W, s, where the profile has one
        (operators cost nothing then), else None.
    """

    name: str
    launch: float
    bandwidth: float
    memory_bytes: int
    peaks: Mapping[str, float]
    gamma: float
    npus_per_server: int
    links: Mapping[str, LinkClass]
    within_server: LinkClass
    between_servers: LinkClass
    phase_seconds: Mapping[str, float] | None = None
    description: str = ""
    sources: tuple[str, ...] = field(default=(), repr=False)

    def peak(self, dtype: str) -> float:
        """Give the peak arithmetic rate for a dtype name such as "float32", in flop/s.

        Raises
        ------
        ValueError : the profile has no figure for that dtype.
        """
        try:
            return self.peaks[dtype]
        except KeyError:
            known = ", ".join(self.peaks)
            message = f"profile {self.name} has no peak for dtype {dtype!r} (it has: {known})"
            raise ValueError(message) from None

    def phase_time(self, phase: str) -> float:
        """Give the fixed length of a pipeline phase in s: F, I, W, or B = I + W; else 0."""
        seconds = self.phase_seconds or {}
        if phase == "B":
            return seconds.get("I", 0.0) + seconds.get("W", 0.0)
        return seconds.get(phase, 0.0)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Compute(_File):
    cores: PositiveCount
    clock: Annotated[float, Field(gt=0, allow_inf_nan=False)]  # Hz
    flops_per_cycle: dict[str, Positive]  # of one core, by dtype name

    def peaks(self) -> dict[str, float]:
        return {dtype: self.cores * self.clock * f for dtype, f in self.flops_per_cycle.items()}


class _Memory(_File):
    bytes: PositiveCount
    bandwidth: Positive  # bytes/s


class _Link(_File):
    kind: LinkKind
    alpha: NotNegative  # s
    bandwidth: Positive  # bytes/s, one way


class _PhaseSeconds(_File):
    F: NotNegative
    I: NotNegative  # noqa: E741 - the schedule papers' letter for the input half of a backward
    W: NotNegative


class _ProfileFile(_File):
    name: str
    description: str
    sources: list[str]
    npus_per_server: PositiveCount
    compute: _Compute
    launch: NotNegative  # s
    memory: _Memory
    gamma: NotNegative  # s/byte
    links: dict[str, _Link]
    within_server: str
    between_servers: str
    phase_seconds: _PhaseSeconds | None = None

    @model_validator(mode="after")
    def _names_of_links_exist(self) -> "_ProfileFile":
        for key in ("within_server", "between_servers"):
            name = getattr(self, key)
            if name not in self.links:
                known = ", ".join(self.links)
                raise ValueError(f"{key} names the link {name!r}; links has: {known}")
        return self

    def profile(self) -> Profile:
        links = {
            name: LinkClass(name, k.kind, k.alpha, k.bandwidth) for name, k in self.links.items()
        }
        return Profile(
            name=self.name,
            launch=self.launch,
            bandwidth=self.memory.bandwidth,
            memory_bytes=self.memory.bytes,
            peaks=self.compute.peaks(),
            gamma=self.gamma,
            npus_per_server=self.npus_per_server,
            links=links,
            within_server=links[self.within_server],
            between_servers=links[self.between_servers],
            phase_seconds=self.phase_seconds.model_dump() if self.phase_seconds else None,
            description=self.description,
            sources=tuple(self.sources),
        )


def profile_names() -> list[str]:
    """Name the profiles that come with the package."""
    files = resources.files("hcom.device.profiles").iterdir()
    return sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml"))


def load_profile(name: str | Path) -> Profile:
    """Load a device profile.

    Parameters
    ----------
    name : a profile of the package ("ascend910b"), or the path of a file of the same form
        (anything with a folder or an ending in it).

    Raises
    ------
    ConfigError : there is no such profile, or a field is missing, unknown or out of range;
        one line that names the file, the field, what came and what would be right.
    """
    text, where = _read(name)
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"profile {where}: not YAML: {' '.join(str(error).split())}") from None
    try:
        return _ProfileFile.model_validate(data).profile()
    except ValidationError as error:
        raise ConfigError(f"profile {where}: {_first_problem(error)}") from None


def _read(name: str | Path) -> tuple[str, str]:
    path = Path(name)
    if path.suffix or len(path.parts) > 1:
        try:
            return path.read_text(encoding="utf-8"), str(path)
        except OSError as error:
            raise ConfigError(f"profile {path}: cannot be read: {error.strerror}") from None
    known = profile_names()
    if str(name) not in known:
        raise ConfigError(
            f"profile {str(name)!r} does not exist (known: {', '.join(known)}; or a path)"
        )
    file = resources.files("hcom.device.profiles") / f"{name}.yaml"
    return file.read_text(encoding="utf-8"), f"{name}.yaml"


def _first_problem(error: ValidationError) -> str:
    problem: Any = error.errors()[0]
    key = ".".join(map(str, problem["loc"])) or "the file"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return (
        f"{key}: {problem['msg']}, got {problem['input']!r}{more}"
        if problem["loc"]
        else problem["msg"]
    )
