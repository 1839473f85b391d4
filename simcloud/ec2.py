"""EC2's describing actions, answered from a scenario."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from simcloud.aws_rows import machine, spot_points
from simcloud.ec2_wire import Ec2Error, Question, page, select
from simcloud.world import Row, World, exact

_WINDOWS_PERCENT = 140
_BLOCK_HOURS = (*range(24, 15 * 24, 24), *range(21 * 24, 183 * 24, 7 * 24))
_TYPE_FILTERS = {
    "instance-type": lambda item: item["instanceType"],
    "current-generation": lambda item: item["currentGeneration"],
    "bare-metal": lambda item: item["bareMetal"],
    "supported-usage-class": lambda item: item["supportedUsageClasses"],
    "processor-info.supported-architecture": lambda item: item["processorInfo"]["supportedArchitectures"],
}
_ZONE_FILTERS = {
    "zone-name": lambda item: item["zoneName"],
    "zone-id": lambda item: item["zoneId"],
    "zone-type": lambda item: item["zoneType"],
    "region-name": lambda item: item["regionName"],
    "state": lambda item: item["zoneState"],
    "opt-in-status": lambda item: item["optInStatus"],
}
_SPOT_FILTERS = {
    "availability-zone": lambda item: item["availabilityZone"],
    "availability-zone-id": lambda item: item["availabilityZoneId"],
    "instance-type": lambda item: item["instanceType"],
    "product-description": lambda item: item["productDescription"],
    "spot-price": lambda item: item["spotPrice"],
    "timestamp": lambda item: item["timestamp"],
}
_LOCATION_FIELDS = {"region": "region", "availability-zone": "zone", "availability-zone-id": "zone_id"}


class Ec2:
    """The answers of one scenario. Each method returns the content of an action's XML, and refuses with `Ec2Error`."""

    def __init__(self, world: World, regions: Sequence[Mapping[str, Any]]) -> None:
        self._world = world
        self._regions = {region["id"]: region for region in regions}
        self._questions: set[tuple[tuple[str, str], ...]] = set()
        self._actions = {
            "DescribeRegions": self._regions_known,
            "DescribeAvailabilityZones": self._zones,
            "DescribeInstanceTypes": self._instance_types,
            "DescribeInstanceTypeOfferings": self._offerings,
            "DescribeSpotPriceHistory": self._spot_price_history,
            "GetSpotPlacementScores": self._spot_placement_scores,
            "DescribeCapacityBlockOfferings": self._capacity_blocks,
        }

    def content(self, question: Question) -> Mapping[str, Any]:
        """Answer one question."""
        options, region = self._world.options["aws"], self._regions.get(question.region)
        known = options["any_credentials"] or question.key_id == options["access_key_id"]
        if not question.key_id or not known or region is None or region["opt_in"] == "not-opted-in":
            message = "AWS was not able to validate the provided access credentials"
            raise Ec2Error("AuthFailure", message, 401)
        if question.action not in self._actions:
            raise Ec2Error("InvalidAction", f"The action {question.action} is not valid for this web service.")
        return self._actions[question.action](question)

    def _rows(self, region: str) -> list[tuple[Row, Row]]:
        pairs = zip(self._world.rows("aws"), self._world.first_rows("aws"), strict=True)
        return [(row, first) for row, first in pairs if row["region"] == region and not row["gone"]]

    def _regions_known(self, question: Question) -> Mapping[str, Any]:
        names = question.many("RegionName")
        every = question.one("AllRegions") == "true" or names
        items = [
            {"regionName": name, "regionEndpoint": f"ec2.{name}.amazonaws.com", "optInStatus": region["opt_in"]}
            for name, region in self._regions.items()
            if (every or region["opt_in"] != "not-opted-in") and (not names or name in names)
        ]
        filters = {"region-name": lambda item: item["regionName"], "opt-in-status": lambda item: item["optInStatus"]}
        return {"regionInfo": select(items, question.filters(), filters)}

    def _zones(self, question: Question) -> Mapping[str, Any]:
        items = [
            {
                "zoneName": zone,
                "zoneId": zone_id,
                "zoneType": "availability-zone",
                "zoneState": "available",
                "optInStatus": "opt-in-not-required",
                "regionName": question.region,
                "groupName": f"{question.region}-zg-1",
                "networkBorderGroup": question.region,
                "messageSet": [],
            }
            for zone, zone_id in self._regions[question.region]["zones"].items()
        ]
        return {"availabilityZoneInfo": select(items, question.filters(), _ZONE_FILTERS)}

    def _instance_types(self, question: Question) -> Mapping[str, Any]:
        names = question.many("InstanceType")
        if names and question.one("MaxResults"):
            message = "The parameter instancetypes cannot be used with the parameter maxresults."
            raise Ec2Error("InvalidParameterCombination", message)
        machines = {row["type"]: machine(row) for row, _ in self._rows(question.region)}
        if unknown := sorted(set(names) - machines.keys()):
            message = f"The following supplied instance types do not exist: [{', '.join(unknown)}]"
            raise Ec2Error("InvalidInstanceType", message)
        items = [item for name, item in machines.items() if not names or name in names]
        found, token = page(question, select(items, question.filters(), _TYPE_FILTERS), 100)
        return {"instanceTypeSet": found, **_next(token)}

    def _offerings(self, question: Question) -> Mapping[str, Any]:
        location_type = question.one("LocationType") or "region"
        if location_type not in _LOCATION_FIELDS:
            raise Ec2Error("InvalidParameterValue", f"Invalid value for locationType: {location_type}")
        field = _LOCATION_FIELDS[location_type]
        offered = dict.fromkeys((row["type"], row[field]) for row, _ in self._rows(question.region))
        items = [{"instanceType": name, "locationType": location_type, "location": at} for name, at in offered]
        filters = {"instance-type": lambda item: item["instanceType"], "location": lambda item: item["location"]}
        found, token = page(question, select(items, question.filters(), filters), 1000)
        return {"instanceTypeOfferingSet": found, **_next(token)}

    def _spot_price_history(self, question: Question) -> Mapping[str, Any]:
        types, products = question.many("InstanceType"), question.many("ProductDescription")
        start, end = _time(question.one("StartTime")), _time(question.one("EndTime"))
        zone, zone_id = question.one("AvailabilityZone"), question.one("AvailabilityZoneId")
        items = [
            item
            for row, first in self._rows(question.region)
            if (not types or row["type"] in types) and zone in (None, row["zone"]) and zone_id in (None, row["zone_id"])
            for item in self._history(row, first, start, end)
            if not products or item["productDescription"] in products
        ]
        found, token = page(question, select(items, question.filters(), _SPOT_FILTERS), 1000)
        return {"spotPriceHistorySet": found, "nextToken": token}

    def _history(self, row: Row, first: Row, start: datetime | None, end: datetime | None) -> list[dict[str, Any]]:
        """Return the changes from `start` to `end`, and the last one before `start`: the price that held then."""
        points = [point for point in spot_points(row, first, self._world.clock) if end is None or point[0] <= end]
        within = sum(start is None or at > start for at, _ in points)
        linux = self._regions[row["region"]].get("spot_product", "Linux/UNIX")
        return [
            {
                "availabilityZone": row["zone"],
                "availabilityZoneId": row["zone_id"],
                "instanceType": row["type"],
                "productDescription": product,
                "spotPrice": f"{price * percent / 100:.6f}",
                "timestamp": at,
            }
            for at, price in points[: within + 1]
            for product, percent in ((linux, 100), ("Windows", _WINDOWS_PERCENT))
        ]

    def _spot_placement_scores(self, question: Question) -> Mapping[str, Any]:
        """Score the best of the types in each zone; with fewer than three types the score is 1, as AWS documents.

        So many different questions are answered, and from then on only those again.
        """
        self._questions.add(tuple(sorted(question.parameters.items())))
        if len(self._questions) > self._world.options["aws"]["score_questions"]:
            self._questions.remove(tuple(sorted(question.parameters.items())))
            message = "You have exceeded your maximum number of unique configurations for the last 24 hours."
            raise Ec2Error("MaxConfigLimitExceeded", message)
        types, regions = question.many("InstanceType"), question.many("RegionName") or [question.region]
        by_zone = question.one("SingleAvailabilityZone") == "true"
        scores: dict[tuple[str, str], int] = {}
        for region in regions:
            for row, _ in self._rows(region):
                if row["type"] in types and row["spot"] is not None:
                    key = (region, row["zone_id"] if by_zone else "")
                    scores[key] = max(scores.get(key, 1), row["score"] if len(types) > 2 else 1)
        best = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))[:10]
        return {"spotPlacementScoreSet": [_score(region, zone_id, score) for (region, zone_id), score in best]}

    def _capacity_blocks(self, question: Question) -> Mapping[str, Any]:
        """Offer a block in each zone that has some: it begins at the half past eleven after the next."""
        name, hours = question.one("InstanceType"), int(question.one("CapacityDurationHours") or 0)
        rows = [row for row, _ in self._rows(question.region) if row["type"] == name]
        if not rows or "capacity-block" not in rows[0]["model"]["usage_classes"]:
            raise Ec2Error("Unsupported", f"The requested configuration is currently not supported: {name}.")
        if hours not in _BLOCK_HOURS:
            raise Ec2Error("InvalidParameterValue", f"Invalid value for capacityDurationHours: {hours}")
        count = int(question.one("InstanceCount") or 1)
        start = _block_start(_time(question.one("StartDateRange")) or self._world.clock.wall_time(0))
        end = _time(question.one("EndDateRange"))
        in_range = end is None or start + timedelta(hours=hours) <= end
        items = [_block(row, start, hours, count) for row in rows if row["blocks"] and in_range]
        found, token = page(question, items, 100)
        return {"capacityBlockOfferingSet": found, **_next(token)}


def _block_start(since: datetime) -> datetime:
    return (since + timedelta(days=2)).replace(hour=11, minute=30, second=0, microsecond=0)


def _block(row: Row, start: datetime, hours: int, count: int) -> dict[str, Any]:
    fee = exact(row["price"]) * exact(row["blocks"]) / 100 * hours * count
    identity = f"{row['zone_id']}{row['type']}{start:%Y%m%d}"
    return {
        "capacityBlockOfferingId": f"cb-{hashlib.sha256(identity.encode()).hexdigest()[:17]}",
        "instanceType": row["type"],
        "availabilityZone": row["zone"],
        "instanceCount": count,
        "startDate": start,
        "endDate": start + timedelta(hours=hours),
        "capacityBlockDurationHours": hours,
        "capacityBlockDurationMinutes": 0,
        "upfrontFee": f"{fee:.4f}",
        "currencyCode": "USD",
        "tenancy": "default",
    }


def _score(region: str, zone_id: str, score: int) -> dict[str, Any]:
    return {"region": region, **({"availabilityZoneId": zone_id} if zone_id else {}), "score": score}


def _next(token: str) -> dict[str, str]:
    return {"nextToken": token} if token else {}


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
