"""The JSON of watches and targets, field by field in order, as `api.shapes` has that of the answers.

Durations are written `90s`, `2m`, `24h`; what a request does not say stays as it is, or has its default.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from catalog.watches import CHOSEN, Format, Lang

FormatName = Annotated[str, Meta(extra_json_schema={"enum": [one.value for one in Format]})]
LangName = Annotated[str, Meta(extra_json_schema={"enum": [one.value for one in Lang]})]
EventName = Annotated[str, Meta(extra_json_schema={"enum": [one.value for one in CHOSEN]})]
Value = str | bool | int | float
"""Of a parameter of a spec."""
Amount = str | int | float | None
StateName = Literal["available", "out", "unknown"]


class TargetChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a target; it is told again then if it was dead. `secret` null makes a new one (`standard`)."""

    format: FormatName | UnsetType = UNSET
    url: str | UnsetType = UNSET
    secret: str | UnsetType | None = UNSET
    keyword: str | UnsetType | None = UNSET
    lang: LangName | UnsetType = UNSET


class TargetRequest(TargetChange, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom to tell: `format` is `standard` and `lang` `en` unless said otherwise."""

    name: str
    url: str


class TargetShape(Struct, frozen=True):
    """A target. `status` is `dead` where nothing is sent there any more, and `why` says why not."""

    name: str
    format: str
    url: str
    has_secret: bool
    keyword: str | None
    lang: str
    status: Literal["ok", "dead"]
    why: str | None
    managed: bool
    created_at: str
    warnings: list[str]


class TargetMade(Struct, frozen=True):
    """A target as it was made or changed. `secret` is what this request set: it is shown here and never again."""

    name: str
    format: str
    url: str
    secret: str | None
    has_secret: bool
    keyword: str | None
    lang: str
    status: Literal["ok", "dead"]
    why: str | None
    managed: bool
    created_at: str
    warnings: list[str]


class TargetsShape(Struct, frozen=True):
    """Targets, by name."""

    items: list[TargetShape]


class StartedTest(Struct, frozen=True):
    """The ids of the deliveries of a test event."""

    deliveries: list[str]


class WatchChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a watch. Another `spec` or `price_below`, and an end of a pause, make it look anew."""

    name: str | UnsetType = UNSET
    spec: dict[str, Value | list[Value]] | UnsetType = UNSET
    notify: list[str] | UnsetType = UNSET
    events: list[EventName] | UnsetType = UNSET
    price_below: Amount | UnsetType = UNSET
    hold: str | UnsetType = UNSET
    hold_back: str | UnsetType = UNSET
    remind: str | UnsetType | None = UNSET
    heartbeat: str | UnsetType | None = UNSET
    change_percent: Value | UnsetType = UNSET
    daily_cap: int | UnsetType | None = UNSET
    expires: str | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET


class WatchRequest(WatchChange, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to look for, what to tell of it, and to whom. `spec` holds parameters of `/cheapest`."""

    name: str
    spec: dict[str, Value | list[Value]]
    notify: list[str]


class LastEvent(Struct, frozen=True):
    """The event that was told last."""

    id: str
    type: str
    at: str


class WatchShape(Struct, frozen=True):
    """A watch: as it was written, as it is understood now (`query`), and what is known of it.

    `state` is the last known one, `since` when it began; `seen` is what the last look saw.
    """

    id: str
    name: str
    spec: dict[str, str]
    query: dict[str, Any] | None
    notify: list[str]
    events: list[str]
    price_below: str | None
    hold: str
    hold_back: str
    remind: str | None
    heartbeat: str | None
    change_percent: str
    daily_cap: int | None
    expires_at: str | None
    paused: bool
    managed: bool
    created_at: str
    state: StateName
    seen: StateName
    since: str | None
    last_event: LastEvent | None
    warnings: list[str]


class WatchesShape(Struct, frozen=True):
    """Watches, the oldest first."""

    items: list[WatchShape]


class DeliveryShape(Struct, frozen=True):
    """An event on its way to one target. `last_error` says why the last attempt failed."""

    id: str
    event_id: str
    type: str
    target: str
    status: Literal["pending", "sent", "failed", "dead"]
    attempts: int
    next_at: str | None
    last_status: int | None
    last_error: str | None
    at: str


class DeliveriesShape(Struct, frozen=True):
    """Deliveries, newest first."""

    items: list[DeliveryShape]


class ApplyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All targets and watches that a file has. With `dry_run` nothing is changed."""

    targets: list[TargetRequest] = []
    watches: list[WatchRequest] = []
    dry_run: bool = False


class AppliedChange(Struct, frozen=True):
    """What a file changed. `fields` are those that are others than before; `id` is a watch's."""

    kind: Literal["target", "watch"]
    name: str
    change: Literal["added", "changed", "removed"]
    fields: list[str]
    id: str | None


class Applied(Struct, frozen=True):
    """What a file changed, or would change (`dry_run`), and how many targets and watches are as it says already."""

    dry_run: bool
    changes: list[AppliedChange]
    unchanged: int
    warnings: list[str]
