"""RunPod's two APIs: a GraphQL query, the catalogue of REST v2, and what their errors mean."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from collectors import base
from collectors.base import Cell, Config, Drift, Page, ProviderError, Unavailable
from collectors.credentials import sendable, stated
from collectors.http import Answer, request, retry_after
from collectors.reading import json_of

KEY = "RUNPOD_API_KEY"


@dataclass(frozen=True, slots=True)
class Api:
    """RunPod as an account sees it."""

    config: Config

    @property
    def key(self) -> str:
        """The key, "" without one."""
        return stated(self.config.environ, KEY)

    def graphql(self, query: str, variables: Mapping[str, object], name: str, cell: Cell, now: datetime) -> Page:
        """One query's answer, of that name. Raises the ProviderError that its errors mean."""
        content = json.dumps({"query": query, "variables": variables}).encode()
        answer = self._ask("POST", "/graphql", now, content)
        page = Page(name, answer.body, now, cell.place, cell.part)
        self._refuse_errors(page, answer)
        return page

    def catalog(self, cell: Cell, now: datetime) -> Page:
        """Data centres and GPU types as one page, since a type names only the data centres where it can be had."""
        cloud, count = part_of(cell.part)
        asked = urlencode({"include": "AVAILABILITY", "product": "POD", "count": count, "cloud": cloud.upper()})
        centres = self._ask("GET", "/v2/catalog/datacenters", now)
        gpus = self._ask("GET", f"/v2/catalog/gpus?{asked}", now)
        body = b'{"datacenters": %b, "gpus": %b}' % (centres.body, gpus.body)
        return Page("catalog", body, now, cell.place, cell.part)

    def _ask(self, method: str, path: str, now: datetime, content: bytes | None = None) -> Answer:
        url = self.config.endpoints.get("api", "https://api.runpod.io").rstrip("/") + path
        headers = {"Authorization": f"Bearer {sendable(self.config.environ, KEY)}"} if self.key else {}
        if content is not None:
            headers["Content-Type"] = "application/json"
        return request(method, url, now=now, headers=headers, content=content, timeout=self.config.timeout)

    def _refuse_errors(self, page: Page, answer: Answer) -> None:
        """GraphQL reports errors in HTTP 200. Data beside them is partial, so that nothing of it is used."""
        root = json_of(page)
        errors = root.get("errors") if isinstance(root, dict) else None
        if errors:
            text = json.dumps(errors, default=str)
            shown = text.replace(self.key, "***") if self.key else text
            pause = retry_after(answer.headers, page.at)
            said = f"RunPod's GraphQL refused {page.name}: {shown:.300}"
            raise _graphql_error(text.casefold(), said, pause, page, keyed=bool(self.key))


def _graphql_error(text: str, said: str, pause: timedelta | None, page: Page, *, keyed: bool) -> ProviderError:
    """What its words mean. Without a key none can have been refused: no setting would mend it, so it is waited for."""
    if re.search(r"unauthenticated|unauthori[sz]ed|forbidden|invalid api key", text):
        return base.AuthFailed(f"{said}; set {KEY} anew or remove it") if keyed else Unavailable(said)
    if re.search(r"rate.?limit|too.?many.?requests", text):
        return base.Throttled(said, pause)
    if re.search(r"graphql_(validation|parse)_failed|bad_user_input", text):
        return Drift(said, page)
    return Unavailable(said)


def part_of(text: str) -> tuple[str, int]:
    """The cloud and the count of a cell's part."""
    cloud, count = text.split(" ")
    return cloud, int(count)
