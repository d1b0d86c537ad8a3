"""Nothing private leaves a log: what is shown of it has ids, names, addresses and tokens masked."""

from __future__ import annotations

import re

__all__ = ["masked"]

_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\b(i|vol|eni|subnet|vpc|sg|snap|ami|r)-[0-9a-f]{8,17}\b", r"\1-(masked)"),
        (r"\bip-\d{1,3}(?:-\d{1,3}){3}(?:\.[\w.-]+)?", "(host)"),
        (r"\bec2-\d{1,3}(?:-\d{1,3}){3}[\w.-]*", "(host)"),
        (r"(?i)\b((?:node ?name|host ?name|hostname|fqdn)\s*[:=]\s*)[^\s,;'\"]+", r"\1(host)"),
        (r"\b[\w.-]+\.(?:compute(?:-\d)?\.(?:internal|amazonaws\.com)|ec2\.internal|pcluster)\b", "(host)"),
        (r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+", "(address)"),
        (r"\b[a-z_][\w-]*@[\w.-]+(?=[:~$])", "(user)@(host)"),
        (r"\b\d{12}(?=\.dkr\.|:(?:role|user|function|endpoint|model|image|log-group)\b)", "(account)"),
        (r"(?<=::)\d{12}\b|(?<=aws:)\d{12}\b|(arn:aws[\w-]*:[\w-]*:[\w-]*:)\d{12}\b", r"\1(account)"),
        (r"(?i)\b(account(?:[ _-]?id)?\"?\s*[:= ]\s*\"?)\d{12}\b", r"\1(account)"),
        (r"(?<![\w.])(?:10|127|169\.254|172\.(?:1[6-9]|2\d|3[01])|192\.168)(?:\.\d{1,3}){2,3}(?![\w.]*\d)", "(address)"),
        (r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?=:\d{2,5}\b|<|\])", "(address)"),
        (r"\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b", "(address)"),
        (r"\bhf_[A-Za-z0-9]{8,}", "hf_(token)"),
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}", "(key)"),
        (r"\bgh[pousr]_[A-Za-z0-9]{20,}", "(token)"),
        (r"(?i)\b((?:token|secret|password|api[_-]?key|authorization)\"?\s*[:=]\s*\"?(?:bearer )?)[^\s\"',;]{6,}", r"\1(masked)"),
        (r"(/home/|/Users/|/fsx/|/mnt/home/)(?!user\b)[\w.@+-]+", r"\1(user)"),
        (r"\b(GPU|NEURON|MIG)-[0-9a-f]{8}-[0-9a-f-]{8,}", r"\1-(masked)"),
    )
)


def masked(text: str) -> str:
    """``text`` with instance ids, host and user names, accounts, addresses and tokens replaced."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
