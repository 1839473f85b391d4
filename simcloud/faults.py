"""Faults: what goes wrong between a client and a cloud, and for whom."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

KINDS = {
    "timeout": "takes the request and never answers",
    "reset": "breaks the connection",
    "status": "answers HTTP `status`, with Retry-After when `retry_after_s` is set",
    "error": "answers an error of the provider's own, `code` and `message`",
    "html": "answers 200 with a page of HTML, as a captive portal does",
    "empty200": "answers 200 with no body",
    "truncate": "promises the whole body and sends half",
    "drop_field": "leaves out every `name` from the answer",
    "delay_ms": "answers after `delay_ms`",
    "skew": "judges signatures by a clock that is `skew_s` ahead",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one provider.

    It meets requests whose `region`, `action`, `part` or `credential` fit the globs in `match`, from scenario second
    `from_s` for `for_s` seconds (None: until cleared), at most `times` times (None: any number).
    """

    kind: str
    provider: str
    match: Mapping[str, str] = field(default_factory=dict)
    from_s: float = 0.0
    for_s: float | None = None
    times: int | None = None
    status: int = 500
    retry_after_s: int | None = None
    code: str = "InternalError"
    message: str = "An internal error has occurred."
    name: str = ""
    delay_ms: int = 0
    skew_s: int = 0
    hold_s: float = 120.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r}: one of {', '.join(KINDS)}")
        if stray := sorted(self.match.keys() - {"region", "action", "part", "credential"}):
            raise ValueError(f"fault {self.kind}: cannot match by {stray[0]!r}; by region, action, part or credential")
        if self.kind == "drop_field" and not self.name:
            raise ValueError("fault drop_field: say which field in `name`")

    def active(self, elapsed_s: float) -> bool:
        """Return whether it is in force at that scenario second."""
        return self.from_s <= elapsed_s and (self.for_s is None or elapsed_s < self.from_s + self.for_s)

    def meets(self, provider: str, request: Mapping[str, str]) -> bool:
        """Return whether this request is one it strikes."""
        return provider == self.provider and fits(self.match, request)


def fits(match: Mapping[str, str], thing: Mapping[str, object]) -> bool:
    """Return whether every field named in `match` is there and fits its glob, by case."""
    return all(key in thing and fnmatchcase(str(thing[key]), str(glob)) for key, glob in match.items())
