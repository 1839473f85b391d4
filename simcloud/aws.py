"""AWS on one port: EC2, the price list as public files and by its query API, and the spot advisor's file."""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from simcloud import aws_pricing, aws_rows, ec2_wire, pricelist
from simcloud.ec2 import Ec2
from simcloud.wire import Reply, Request
from simcloud.world import Identity, World

OPTIONS: Mapping[str, Any] = {
    "access_key_id": "simcloud",  # the id is checked, the signature is not
    "secret_access_key": "simcloud",
    "any_credentials": False,  # any key id that is not empty
    "score_questions": 50,  # how many different questions for placement scores are answered
    "publication_date": "2026-07-20T13:44:30Z",
    "files": {},  # region: path of a price list to serve as it is, from the scenario's folder
}
_SERVICES = ("EC2", "PRICING", "PRICE_LIST", "SPOT_ADVISOR")
_OFFERS = "/offers/v1.0/aws/AmazonEC2"
_REGION_FILE = re.compile(r"/offers/v1\.0/(aws|cn)/AmazonEC2/(?:current|\d{14})/([\w-]+)/index\.csv")
_PRICING_REGIONS = ("us-east-1", "eu-central-1", "ap-south-1", "cn-northwest-1")
_INTERRUPTIONS = [("<5%", 5), ("5-10%", 11), ("10-15%", 16), ("15-20%", 22), (">20%", 100)]
_CODES = {401: "AuthFailure", 403: "UnauthorizedOperation", 429: "RequestLimitExceeded", 503: "RequestLimitExceeded"}


class Aws:
    """The answers of `[aws]` in a scenario."""

    name = "aws"

    def __init__(self, world: World) -> None:
        table = world.scenario.providers["aws"]
        self._world = world
        self._regions: dict[str, Mapping[str, Any]] = {region["id"]: region for region in table["region"]}
        self._ec2 = Ec2(world, table["region"])
        world.add("aws", aws_rows.expand(table), {**OPTIONS, **table.get("options", {})})

    def identify(self, request: Request) -> Identity:
        """Return the action and signed region, or `price_list`, `price_list_index`, `spot_advisor` for the files."""
        if request.method == "POST":
            question = ec2_wire.Question.read(request)
            if products := aws_pricing.action(request):
                return {"action": products, "region": question.region, "part": "", "credential": question.key_id}
            part = ",".join(question.many("ProductDescription")) or question.one("LocationType") or ""
            return {"action": question.action, "region": question.region, "part": part, "credential": question.key_id}
        found = _REGION_FILE.fullmatch(request.path)
        files = {f"{_OFFERS}/current/region_index.json": "price_list_index", "/spot-advisor-data.json": "spot_advisor"}
        action = "price_list" if found else files.get(request.path, request.path)
        return {"action": action, "region": found[2] if found else "", "part": "", "credential": ""}

    def answer(self, request: Request, skew_s: int) -> Reply:  # noqa: ARG002 - signatures are not judged here
        """Answer EC2 or the query API (POST) or a file (GET)."""
        if request.method == "POST":
            return self._answer_products(request) if aws_pricing.action(request) else self._answer_ec2(request)
        if request.path == "/spot-advisor-data.json":
            return self._file(request, json.dumps(self._spot_advisor()).encode(), "application/json")
        if request.path == f"{_OFFERS}/current/region_index.json":
            return self._file(request, json.dumps(self._region_index()).encode(), "application/json")
        found = _REGION_FILE.fullmatch(request.path)
        own = found is not None and (found[1] == "cn") == found[2].startswith("cn-")
        body = self._price_list(found[2]) if found and own else None
        return _denied() if body is None else self._file(request, body, "text/csv")

    def failure(self, status: int, code: str, message: str) -> Reply:
        """Return EC2's XML error; 200 stands for 400, as EC2 puts no error into a success."""
        if status == 200:
            return ec2_wire.error(code, message, 400)
        return ec2_wire.error(_CODES.get(status, "InternalError"), message, status)

    def environment(self, url: str) -> dict[str, str]:
        """Return endpoints and credentials."""
        options = self._world.options["aws"]
        services = {f"GPUFARE_PROVIDERS__AWS__ENDPOINTS__{name}": url for name in _SERVICES}
        keys = {name.upper(): options[name] for name in ("access_key_id", "secret_access_key")}
        return services | {f"AWS_{name}": value for name, value in keys.items()}

    def _answer_ec2(self, request: Request) -> Reply:
        question = ec2_wire.Question.read(request)
        try:
            return ec2_wire.answer(question.action, self._ec2.content(question))
        except ec2_wire.Ec2Error as refusal:
            return ec2_wire.error(refusal.code, refusal.message, refusal.status)

    def _answer_products(self, request: Request) -> Reply:
        question, options = ec2_wire.Question.read(request), self._world.options["aws"]
        if not question.key_id or not (options["any_credentials"] or question.key_id == options["access_key_id"]):
            message = "The security token included in the request is invalid."
            return aws_pricing.error("UnrecognizedClientException", message, 400)
        if question.region not in _PRICING_REGIONS:
            return aws_pricing.error("InvalidParameterException", f"There is no price list in {question.region}", 400)
        rows = [row for row in self._world.rows("aws") if not row["gone"]]
        lines = [
            line
            for name, region in self._regions.items()
            for line in pricelist.region_lines([row for row in rows if row["region"] == name], region)
            if name.startswith("cn-") == question.region.startswith("cn-")
        ]
        return aws_pricing.answer(request, lines, options["publication_date"])

    def _file(self, request: Request, body: bytes, content_type: str) -> Reply:
        published = datetime.fromisoformat(self._world.options["aws"]["publication_date"])
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {"ETag": etag, "Last-Modified": format_datetime(published, usegmt=True)}
        if etag in request.headers.get("if-none-match", ""):
            return Reply(304, b"", content_type, headers)
        return Reply(200, body, content_type, headers, compressible=True)

    def _price_list(self, region: str) -> bytes | None:
        """Return a region's CSV, None where there is none."""
        options = self._world.options["aws"]
        if region in options["files"]:
            return Path(self._world.scenario.folder, options["files"][region]).read_bytes()
        rows = [row for row in self._world.rows("aws") if row["region"] == region and not row["gone"]]
        if not rows:
            return None
        return pricelist.region_csv(rows, self._regions[region], options["publication_date"])

    def _region_index(self) -> dict[str, Any]:
        published = self._world.options["aws"]["publication_date"]
        at = pricelist.version(published)
        regions = {
            name: {"regionCode": name, "currentVersionUrl": f"{_OFFERS}/{at}/{name}/index.json"}
            for name in dict.fromkeys([*(row["region"] for row in self._world.rows("aws"))])
        }
        return {"formatVersion": "v1.0", "publicationDate": published, "regions": regions}

    def _spot_advisor(self) -> dict[str, Any]:
        rows = [row for row in self._world.rows("aws") if row["spot"] is not None and not row["gone"]]
        advice: dict[str, Any] = {row["region"]: {"Linux": {}, "Windows": {}} for row in rows}
        for row in rows:
            saving = int(100 - 100 * row["spot"] / row["price"])
            advice[row["region"]]["Linux"][row["type"]] = {"s": saving, "r": (10 - row["score"]) // 2}
        machines = {
            row["type"]: {"emr": False, "cores": row["vcpus"], "ram_gb": row["memory_mib"] / 1024} for row in rows
        }
        ranges = [
            {"index": index, "label": label, "dots": index, "max": most}
            for index, (label, most) in enumerate(_INTERRUPTIONS)
        ]
        return {"global_rate": "<10%", "instance_types": machines, "ranges": ranges, "spot_advisor": advice}


def _denied() -> Reply:
    """Return what S3 says of a key that is not there to somebody who may not list the bucket."""
    error = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    return Reply(403, b'<?xml version="1.0" encoding="UTF-8"?>\n' + error, "application/xml")
