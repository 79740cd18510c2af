"""Read `parallel_config.yaml`: a checked ParallelConfig, or one line that says what is wrong."""

from collections.abc import Hashable
from os import PathLike
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from hcom.errors import ConfigError
from parallel.config import rules
from parallel.config.explain import explain
from parallel.config.schema import ParallelConfig


def load_config(path: str | PathLike[str], world_size: int) -> ParallelConfig:
    """Read and check a config file for a world of ranks.

    Parameters
    ----------
    path : a YAML file.
    world_size : ranks that were started.

    Raises
    ------
    ConfigError
        One line: the file, the key with its value, and what would be right.
    """
    content: Any = None
    try:
        content = _read(Path(path))
        config = ParallelConfig.model_validate(content)
        rules.check(config, world_size)
    except ValidationError as error:
        raise ConfigError(f"{path}: {explain(error)}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {_as_spelled(str(error), content)}") from None
    return config


def _as_spelled(problem: str, content: Any) -> str:
    """Name the sequence-parallel section as the file does."""
    if isinstance(content, dict) and "context_parallel" in content:
        return problem.replace("sequence_parallel", "context_parallel")
    return problem


def _read(path: Path) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)
    except FileNotFoundError:
        raise ConfigError("no such file; give the path of a YAML file") from None
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror}); give a YAML file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"byte {error.start} is not UTF-8; save the file as UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_where(error)) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {' '.join(str(error).split())}") from None


def _where(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{place}{error.problem or error.context}; expected `key: value` lines as in YAML"


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML's safe loader, which would silently keep the last of equal keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                line = key.start_mark.line + 1
                raise ConfigError(f"line {line}: key {key.value!r} is given twice; keep one")
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)
