"""Reading a file strictly: every problem is one line that says what, the value, what is allowed and what to type next."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional, Union

import yaml
from pydantic import BaseModel, ValidationError

from neuronfit.errors import BadParams, nearest
from neuronfit.params.whole import SECTIONS, Params, nearest_text

__all__ = ["json_schema", "load", "parse"]


def load(path: Union[str, Path]) -> Params:
    """Read a params file. Raises :class:`~neuronfit.errors.BadParams`, always one line."""
    path = Path(path)
    hint = f"neuronfit run {path}"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        beside = [str(found) for folder in (path.parent / "params", path.parent) for found in sorted(folder.glob("*.y*ml"))]
        names = {Path(found).name: found for found in reversed(beside)}
        near = [names[name] for name in nearest(path.name, names)] or beside[:3]
        raise BadParams("no such params file", str(path), allowed=", ".join(near) or "a YAML file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or ("it is not text" if isinstance(error, UnicodeDecodeError) else str(error))
        raise BadParams(f"cannot read the params file ({reason})", str(path), allowed="a YAML file in UTF-8", next="check the path") from None
    try:
        data = yaml.load(text, Loader=_StrictLoader)
    except (ValueError, LookupError, AttributeError, RecursionError) as error:  # a tag or date that PyYAML itself trips over
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadParams(f"not valid YAML ({reason})", str(path), next=f"write plain words and numbers, then {hint}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error)
        raise BadParams(f"not valid YAML ({problem})", where, next=f"fix the line, then {hint}") from None
    return parse(data, where=str(path))


def parse(data: Any, where: str = "parameters") -> Params:
    """Turn a mapping of sections into :class:`Params`; ``where`` names its origin in messages."""
    if not isinstance(data, Mapping):
        kind = {list: "a list", str: "a string", type(None): "empty"}.get(type(data), type(data).__name__)
        raise BadParams(
            f"{where} is {kind}, not a mapping of sections",
            allowed=", ".join(SECTIONS),
            next="start from params/bert-base-uncased.yaml",
        )
    try:
        return Params.model_validate(dict(data))
    except ValidationError as error:
        raise _one_line(error, where) from None


def json_schema() -> dict[str, Any]:
    """The JSON schema of a params file, for editors (``params/params.schema.json``)."""
    schema = Params.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "neuronfit params file"
    return schema


class _StrictLoader(yaml.SafeLoader):
    """YAML that refuses a key written twice and reads ``1e9`` as the number it looks like."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, (str, int, float, bool, type(None))):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain word", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is written twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789"))


def _one_line(error: ValidationError, where: str) -> BadParams:
    """The first problem of a validation, as what / value / allowed / next."""
    problems = [
        entry
        for entry in error.errors()
        if not any(len(other["loc"]) > len(entry["loc"]) and other["loc"][: len(entry["loc"])] == entry["loc"] for other in error.errors())
    ]  # a list that is too short because its entry was refused is one problem
    problem = next((entry for entry in problems if entry["type"] == "extra_forbidden"), problems[0])
    keys = [str(part) for part in problem["loc"]]
    if "settings" in keys:  # what follows the setting's name is pydantic's name for a type
        keys = keys[: keys.index("settings") + 2]
        problems = [entry for entry in problems if entry is problem or "settings" not in entry["loc"]]
    place = f"{where}: {'.'.join(keys)}" if keys else where
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    kind, context, value = problem["type"], problem.get("ctx", {}), problem.get("input")
    if kind == "extra_forbidden":
        known = _fields_at(problem["loc"][:-1])
        near = nearest(keys[-1], known)
        allowed = f"{near[0]} (did you mean that?); all: {', '.join(known)}" if near else ", ".join(known)
        return BadParams(f"{where}: unknown key{more}", ".".join(keys), allowed=allowed)
    if kind == "missing":
        return BadParams(f"{place} is missing{more}", allowed="a value; it has no default", next="add the key")
    if kind == "literal_error":
        options = [option.strip(" '") for option in context["expected"].replace(" or ", ", ").split(",")]
        near = nearest_text(value, options) if isinstance(value, str) else ""
        return BadParams(f"{place}{more}", value, allowed=f"{', '.join(options)}{near}")
    description = _description_at(problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    for python, plain in _PLAIN_WORDS:
        message = message.replace(python, plain)
    message = message[:1].lower() + message[1:]
    if "settings" in problem["loc"]:
        message = "true, false, a number or a word"
    allowed = "; ".join(part for part in (message, description) if part)
    if kind == "value_error" and isinstance(value, (Mapping, BaseModel, list, tuple)):
        return BadParams(f"{place}{more}: {message}")
    return BadParams(f"{place}{more}", value, allowed=allowed)


_PLAIN_WORDS = (
    ("Tuple should have at least 1 item after validation, not 0", "at least one entry"),
    ("Input should be a valid tuple", "a list of entries"),
    ("Input should be a valid dictionary", "a mapping of keys"),
    (" or instance of ", " for "),
)
"""Pydantic speaks Python; a params file is YAML."""


def _model_at(loc: tuple[Any, ...]) -> Optional[type[BaseModel]]:
    """The section class that the path of an error leads to."""
    model: Optional[type[BaseModel]] = Params
    for part in loc:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part) if model else None
        model = _section_in(field.annotation) if field else None
    return model


def _section_in(annotation: Any) -> Optional[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _section_in(inner)
        if found:
            return found
    return None


def _fields_at(loc: tuple[Any, ...]) -> list[str]:
    model = _model_at(loc)
    return list(model.model_fields) if model else []


def _description_at(loc: tuple[Any, ...]) -> str:
    model = _model_at(loc[:-1])
    field = model.model_fields.get(loc[-1]) if model and loc else None
    return (field.description or "") if field else ""
