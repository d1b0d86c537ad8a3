"""What a column of a trace holds, by its name: when a request came, its tokens, its status.

Names are compared without case, spaces and punctuation, so ``Request tokens``, ``request_tokens`` and
``requestTokens`` are one. Where several columns could play a role, the one named first in the list wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Optional

__all__ = ["LATENCY_UNITS", "PRIVATE", "ROLES", "assign", "latency_factor", "latency_unit", "plain", "private_names"]

ROLES: dict[str, tuple[str, ...]] = {
    "start": (
        *(
            "arrivedat",
            "arrival",
            "arrivaltime",
            "arrivaltimestamp",
            "arrivals",
            "arrivaltimes",
            "requestcreationtime",
            "requesttimestamp",
            "requesttimeepoch",
            "receivedat",
            "startutc",
            "startlocal",
            "begintimeseconds",
            "begintime",
            "starttimeunixnano",
        ),
        *("requestreceivedat", "submittedat", "submittime", "submissiontime", "starttime", "startedat", "starttimestamp", "startts", "start"),
        *("requeststart", "requeststarttime", "createdat", "intendedsendtime", "sendtime", "sentat"),
    ),
    "time": (
        *(
            "timestamp",
            "time",
            "ts",
            "datetime",
            "dateandtime",
            "eventtime",
            "requesttime",
            "created",
            "date",
            "when",
            "t",
            "timestamputc",
            "timeutc",
            "inferencetime",
            "timegenerated",
            "timegeneratedutc",
            "zeitstempel",
            "zeitpunkt",
            "zeit",
            "datum",
            "horodatage",
            "fecha",
        ),
        *(
            "timestampms",
            "timestampus",
            "timestampns",
            "timestamps",
            "timems",
            "tsms",
            "unixtime",
            "epoch",
            "epochms",
            "logtime",
            "asctime",
            "isotime",
        ),
        *("offset", "minute", "hour", "day", "bucket", "interval", "windowstart", "period", "periodstart"),
    ),
    "end": (
        "timelocal",
        "timeiso8601",
        "msec",
        "endtime",
        "endtimestamp",
        "endtimeseconds",
        "endedat",
        "end",
        "finishedat",
        "finishtime",
        "completedat",
        "completiontime",
        "responsetime",
    ),
    "input": (
        *("contexttokens", "prompttokens", "inputtokens", "numprefilltokens", "prefilltokens", "requesttokens", "numprompttokens", "ninputtokens"),
        *(
            "inputlength",
            "promptlength",
            "contextlength",
            "inputlen",
            "promptlen",
            "contextlen",
            "inputseqlen",
            "isl",
            "tokensin",
            "intokens",
            "inputs",
        ),
        *(
            "inputtokencount",
            "prompttokencount",
            "numinputtokens",
            "inputsequencelength",
            "sequencelength",
            "seqlen",
            "ntokens",
            "tokens",
            "eingabetokens",
            "eingabetoken",
            "inputtokennum",
            "inputtokensnum",
            "prompttokennum",
            "usagedetailsinput",
            "usageinput",
            "llmtokencountprompt",
            "attributesllmtokencountprompt",
        ),
    ),
    "output": (
        *("generatedtokens", "completiontokens", "outputtokens", "numdecodetokens", "decodetokens", "responsetokens", "numgeneratedtokens"),
        *("noutputtokens", "outputlength", "outputlen", "generationlength", "genlen", "osl", "tokensout", "outtokens", "outputtokencount"),
        *(
            "completiontokencount",
            "candidatestokencount",
            "numoutputtokens",
            "numcompletiontokens",
            "outputsequencelength",
            "responselength",
            "ausgabetokens",
            "ausgabetoken",
            "outputtokennum",
            "outputtokensnum",
            "completiontokennum",
            "usagedetailsoutput",
            "usageoutput",
            "llmtokencountcompletion",
            "attributesllmtokencountcompletion",
        ),
    ),
    "status": ("status", "statuscode", "httpstatus", "responsecode", "httpstatuscode", "responsestatus", "elbstatuscode", "scstatus", "returncode"),
    "latency": (
        *("requesttime", "duration", "durationms", "durations", "latency", "latencyms", "latencys", "responsetime", "responsetimems", "elapsed"),
        *(
            "elapsedms",
            "elapsedtime",
            "timetaken",
            "requestduration",
            "requestdurationms",
            "requestlatency",
            "requestlatencyms",
            "totaltime",
            "e2elatency",
            "responselatency",
            "dauer",
            "antwortzeit",
        ),
    ),
    "method": ("method", "requestmethod", "httpmethod", "verb", "csmethod"),
    "path": ("path", "uri", "requesturi", "requestpath", "url", "requesturl", "csuristem", "route", "endpoint", "target"),
    "request": ("request", "requestline"),
    "agent": ("httpuseragent", "useragent", "agent", "csuseragent"),
    "id": ("requestid", "id", "traceid", "xrequestid", "uuid", "reqid", "chatid", "correlationid"),
    "count": (
        *("requestcount", "requests", "count", "numrequests", "nrequests", "invocations", "hits", "calls", "queries", "samplecount", "totalrequests"),
        *("sum", "requeststotal", "httprequeststotal", "requestsuccesstotal", "numberofrequests", "value"),
    ),
    "rate": ("rps", "qps", "requestspersecond", "requestspersec", "requestspers", "reqpersec", "requestrate", "rate", "throughput"),
}
"""Role -> names, the best first."""

LATENCY_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}
"""Ends of a name -> seconds; without one, a duration is in seconds."""

PRIVATE = re.compile(
    r"authori[sz]ation|api[_-]?key|token$|secret|password|passwd|cookie|credential|session|e-?mail|user(?![_-]?agent)|phone|remote_?addr|client_?ip|"
    r"^ip$|prompt$|@?messages?$|^log$|^line$|^data$|(?:request|response)_?body|^body$|completion$|^content$|^query$|answer$|^text$|^input$|^output$|^response$",
    re.IGNORECASE,
)
"""Names of columns that hold secrets, texts of people, or people."""


def plain(name: str) -> str:
    """``Request tokens`` -> ``requesttokens``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def assign(names: Iterable[str], usable: Optional[Mapping[str, frozenset[str]]] = None) -> dict[str, str]:
    """Role -> column, for columns given by name; nested ones by their path, ``usage.prompt_tokens``.

    ``usable`` limits a role to the columns whose values fit it.
    """
    columns = list(names)
    found: dict[str, str] = {}
    for role, known in ROLES.items():
        allowed = [name for name in columns if usable is None or role not in usable or name in usable[role]]
        ranked = [(known.index(form), name.count("."), name) for name in allowed for form in _forms(name) if form in known]
        free = [entry for entry in ranked if entry[2] not in found.values()]
        if free:
            found[role] = min(free, key=lambda entry: entry[:2])[2]
    if plain(found.get("output", "").rpartition(".")[2]) == "responselength" and {"method", "path", "request", "status"} & set(found):
        del found["output"]  # a gateway's responseLength is in bytes
    return found


def _forms(name: str) -> tuple[str, ...]:
    """The whole path, its last part, and that without a prefix of a name space (``vllm:request_success_total``)."""
    last = name.rpartition(".")[2]
    bare = re.sub(r"\s*[(\[].*[)\]]$|[_ .-](?:ns|us|ms|s|sec|seconds|utc)$", "", last, flags=re.IGNORECASE)
    return tuple(dict.fromkeys((plain(name), plain(last), plain(last.rpartition(":")[2]), plain(bare))))


def latency_factor(name: str) -> float:
    """Seconds per unit of a duration, by the end of its name."""
    tail = re.search(r"(?:_|\b|\()(ns|us|ms|s)\)?$", re.sub(r"([a-z])(Ms|Us|Ns)$", lambda part: f"{part[1]}_{part[2].lower()}", name))
    return LATENCY_UNITS.get(tail[1], 1.0) if tail else 1.0


def latency_unit(name: str, texts: Iterable[str], beside: Iterable[str]) -> tuple[float, Optional[str]]:
    """Seconds per unit of a duration, and the unit's name where it had to be assumed.

    A name may say it; Traefik counts nanoseconds and has ``OriginDuration`` beside. Otherwise fractions are seconds, and the size
    of whole numbers decides: a median of 20 and more are milliseconds, of 300,000 microseconds, of 10 million nanoseconds.
    """
    if (said := latency_factor(name)) != 1.0 or re.search(r"(?:_|\b|\()(?:s|sec|seconds)\)?$", name):
        return said, None
    if "originduration" in {plain(each) for each in beside} and plain(name) == "duration":
        return 1e-9, None
    known = sorted(int(text) for text in texts if re.fullmatch(r"\d+", text.strip()))
    if not known or len(known) < sum(bool(text.strip()) for text in texts):
        return 1.0, None
    middle = known[len(known) // 2]
    unit = "ns" if middle >= 10_000_000 else "us" if middle >= 300_000 else "ms" if middle >= 20 else None
    return (LATENCY_UNITS[unit], unit) if unit else (1.0, None)


def private_names(names: Iterable[str]) -> tuple[str, ...]:
    """The columns whose names say that they hold something that must not be shown."""
    return tuple(name for name in names if PRIVATE.search(name.rpartition(".")[2]))
