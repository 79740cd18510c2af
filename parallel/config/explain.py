"""A pydantic error as one line: the dotted key, the value that came, and what would be right."""

import difflib
import reprlib
from typing import Any

from pydantic import BaseModel, ValidationError

from parallel.config.schema import ParallelConfig

_BOUNDS = {
    "minimum": "of at least",
    "exclusiveMinimum": "above",
    "maximum": "of at most",
    "exclusiveMaximum": "below",
}
_NOUNS = {"integer": "an integer", "number": "a number", "boolean": "true or false"}


def explain(error: ValidationError) -> str:
    """Say the first problem of a config in one line; unknown keys come first.

    A misspelt key is often the cause of the rest, so it goes before wrong values.
    """
    errors = error.errors(include_url=False)
    first = min(errors, key=lambda entry: entry["type"] != "extra_forbidden")
    keys = [str(key) for key in first["loc"][:2]]  # deeper entries name the branch of a union
    came = reprlib.repr(first["input"])
    if first["type"] == "extra_forbidden":
        return f"{'.'.join(keys)} = {came}: {_unknown(keys)}"
    if first["type"] == "invalid_key":
        return f"{'.'.join(keys)}: a key must be text; known keys: {_listed(_known(keys[:-1]))}"
    if first["type"] == "model_type":
        known = _listed(_known(keys))
        return f"{'.'.join(keys) or 'the file'} = {came}: expected a mapping of {known}"
    return f"{'.'.join(keys)} = {came}: expected {_expected(keys)}{_hint(first['input'])}"


def _section(name: str) -> type[BaseModel]:
    name = "sequence_parallel" if name == "context_parallel" else name
    section = ParallelConfig.model_fields[name].annotation
    assert isinstance(section, type)
    assert issubclass(section, BaseModel)
    return section


def _known(path: list[str]) -> list[str]:
    """Keys that a mapping may hold: the file's for an empty path."""
    return list((_section(path[0]) if path else ParallelConfig).model_fields)


def _unknown(keys: list[str]) -> str:
    if keys == ["context_parallel"]:
        return "another name of sequence_parallel, which is given too; keep one of them"
    known = _known(keys[:-1])
    near = difflib.get_close_matches(keys[-1], known, n=1, cutoff=0.5)
    advice = f"did you mean {'.'.join([*keys[:-1], near[0]])}? " if near else ""
    return f"unknown key; {advice}known keys: {_listed(known)}"


def _listed(names: list[str]) -> str:
    return ", ".join(names)


def _expected(keys: list[str]) -> str:
    schema = _section(keys[0]).model_json_schema()["properties"][keys[1]]
    return " or ".join(map(_phrase, schema.get("anyOf", [schema])))


def _phrase(schema: dict[str, Any]) -> str:
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(map(str, values))
    bounds = [f"{word} {schema[bound]}" for bound, word in _BOUNDS.items() if bound in schema]
    noun = _NOUNS.get(schema["type"], schema["type"])
    return f"{noun} {' and '.join(bounds)}".rstrip()


def _hint(value: object) -> str:
    """YAML takes 3e-3 (no point) and quoted figures as text; say how to write the number."""
    try:
        number = float(value) if isinstance(value, str) else None
    except ValueError:
        number = None
    return "" if number is None else f" (YAML reads this as text; write {number:g})"
