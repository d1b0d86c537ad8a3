"""Spans of OpenTelemetry, as a collector writes them (OTLP JSON): which of them are requests.

One request makes many spans: of the server, of each call behind it. Spans that carry numbers of tokens (``gen_ai.usage.*``, or those of
OpenInference) are calls of a model; where there is none, spans of kind SERVER are the requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

__all__ = ["COLUMNS", "kept_sql", "relation"]

_KEYS = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "status": ("http.response.status_code", "http.status_code"),
    "method": ("http.request.method", "http.method"),
    "path": ("http.route", "url.path", "http.target"),
}
"""Column -> attributes, the current name of the semantic conventions first."""

COLUMNS = ("startTimeUnixNano", "endTimeUnixNano", "kind", *_KEYS)

_SERVER = ("2", "SPAN_KIND_SERVER")


def _spans(objects: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for entry in objects:
        for resource in entry.get("resourceSpans") or []:
            for scope in resource.get("scopeSpans") or resource.get("instrumentationLibrarySpans") or []:
                yield from (span for span in scope.get("spans") or [] if isinstance(span, Mapping))


def kept_sql(objects: Sequence[Mapping[str, Any]]) -> tuple[Optional[str], str]:
    """Which rows of :func:`relation` are requests, as SQL, and what they are called; None where the first objects hold none."""
    spans = list(_spans(objects))
    tokens = {*_KEYS["input_tokens"], *_KEYS["output_tokens"]}
    if any(attribute.get("key") in tokens for span in spans for attribute in span.get("attributes") or []):
        return "(input_tokens IS NOT NULL OR output_tokens IS NOT NULL)", "calls of a model"
    if any(str(span.get("kind")) in _SERVER for span in spans):
        return f"kind IN {_SERVER}", "requests at a server"
    return None, ""


def relation(source: str, lines: bool, size: int) -> str:
    """The spans as rows of texts, named :data:`COLUMNS`."""

    def value(keys: Sequence[str]) -> str:
        found = [f"list_filter(a, lambda e: json_extract_string(e, '$.key') = '{key}')[1]" for key in keys]
        kinds = ("intValue", "doubleValue", "stringValue")
        return f"coalesce({', '.join(f'json_extract_string({each}, {chr(39)}$.value.{kind}{chr(39)})' for each in found for kind in kinds)})"

    plain = ", ".join(f"json_extract_string(s, '$.{name}') AS \"{name}\"" for name in COLUMNS[:3])
    told = ", ".join(f'{value(keys)} AS "{name}"' for name, keys in _KEYS.items())
    document = (
        f"read_json({source}, format = '{'newline_delimited' if lines else 'unstructured'}', columns = {{resourceSpans: 'JSON[]'}}, "
        f"ignore_errors = {str(lines).lower()}, maximum_object_size = {size}, compression = 'auto')"
    )
    groups = "coalesce(json_extract(r, '$.scopeSpans'), json_extract(r, '$.instrumentationLibrarySpans'))"
    scopes = f"SELECT unnest(CAST({groups} AS JSON[])) AS x FROM (SELECT unnest(resourceSpans) AS r FROM {document})"
    spans = f"SELECT unnest(CAST(json_extract(x, '$.spans') AS JSON[])) AS s FROM ({scopes})"
    return f"(SELECT {plain}, {told} FROM (SELECT s, CAST(json_extract(s, '$.attributes') AS JSON[]) AS a FROM ({spans})))"
