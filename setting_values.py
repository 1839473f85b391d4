"""How the values of settings are read: each from text or TOML to its exact type, or refused in a sentence.

No message repeats a value that may hold a secret.
"""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import Annotated

from pydantic import PlainValidator, SecretStr

from catalog.durations import duration


def one_of(value: str, allowed: Iterable[str]) -> str:
    """`value` itself. Raises ValueError with what is allowed, and which of it is near."""
    known = sorted(allowed)
    if value not in known:
        near = get_close_matches(value, known, n=3)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"{value!r} is not one of {', '.join(known)}.{hint}")
    return value


def names(value: object) -> tuple[str, ...]:
    """Names separated by commas, or a list of them, each once. Raises ValueError for anything else."""
    given = list(value) if isinstance(value, list | tuple) else [value]
    parts = [part for part in given if isinstance(part, str)]
    if len(parts) < len(given):
        raise ValueError("this is not a list of names: separate them by commas.")
    every = (name.strip() for part in parts for name in part.split(","))
    return tuple(dict.fromkeys(name for name in every if name))


def _duration(value: object) -> timedelta:
    length = value if isinstance(value, timedelta) else duration(str(value))
    if length is None:
        raise ValueError(f"{value!r} is not a duration from 1s to 3650d, such as 60s, 10m, 24h or 7d.")
    return length


def _boolean(value: object) -> bool:
    return one_of(str(value).lower(), ("true", "false")) == "true"


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _polls(value: object) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", str(value)) or not 1 <= int(str(value)) <= 256:
        raise ValueError(f"{value!r} is not a whole number from 1 to 256.")
    return int(str(value))


def _attempts(value: object) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", str(value)) or not 1 <= int(str(value)) <= 100:
        raise ValueError(f"{value!r} is not a whole number from 1 to 100.")
    return int(str(value))


def _port(value: object) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", str(value)) or not 1 <= int(str(value)) <= 65535:
        raise ValueError(f"{value!r} is not a port: write a whole number from 1 to 65535.")
    return int(str(value))


def _host(value: object) -> str:
    if not re.fullmatch(r"[\w.-]+|[0-9A-Fa-f:.]+", str(value), re.ASCII):
        raise ValueError(f"{value!r} is not a host: write its name alone, such as smtp.example.com.")
    return str(value)


def _timeout(value: object) -> timedelta:
    length = _duration(value)
    if length > timedelta(minutes=5):
        raise ValueError(f"{value!r} is longer than 5m.")
    return length


def _rate(value: object) -> Decimal:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", str(value)) or not Decimal(str(value)):
        raise ValueError(f"{value!r} is not an exchange rate: write a decimal number above 0, such as 0.1389.")
    return Decimal(str(value))


def _pair(value: object) -> str:
    if not re.fullmatch(r"[A-Z]{3}_[A-Z]{3}", str(value)) or str(value)[:3] == str(value)[4:]:
        raise ValueError("the name is not two different currency codes, such as CNY_USD (USD for 1 CNY).")
    return str(value).replace("_", "/")


def _past_day(value: object) -> date:
    try:
        day = date.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a day, such as 2026-11-28.") from None
    today = datetime.now(UTC).date()
    if day > today + timedelta(days=1):  # where the day begins first, it is tomorrow's for half a day
        raise ValueError(f"{day} is yet to come (today is {today} here): no rate is of that day.")
    return day


def _url(value: object) -> str:
    # The value may hold a password: no message repeats it.
    found = re.fullmatch(r"https?://([\w.-]+|\[[0-9A-Fa-f:.]+])(?::([0-9]{1,5}))?(/[^\s?#@]*)?", str(value), re.ASCII)
    if not found or not 1 <= int(found[2] or 80) <= 65535:
        raise ValueError("write http:// or https:// and a host, without a password, such as https://example.com:8000.")
    return str(value).rstrip("/")


def _endpoint(value: object) -> str:
    url = _url(value)
    if url.count("/") > 2:
        raise ValueError("write scheme, host and port only, such as http://127.0.0.1:9000: the path is added to it.")
    return url


def _token(value: object) -> SecretStr:
    # The value is a secret: no message repeats it.
    if not isinstance(value, str) or not re.fullmatch(r"[!-~]+", value):
        raise ValueError("write letters, digits and signs of ASCII without blanks: it travels in a header.")
    return SecretStr(value)


def _secret(value: object) -> SecretStr:
    # The value is a secret: no message repeats it. Whether a header can hold it, who sends it says.
    if not isinstance(value, str):
        raise ValueError("write a text, between quotes.")  # noqa: TRY004 - pydantic makes a sentence of ValueError alone
    return SecretStr(value)


def _database_url(value: object) -> str:
    # The value may hold a password: no message repeats it.
    if not re.match(r"(sqlite:///|postgresql\+psycopg://).", str(value)):
        raise ValueError("write sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE.")
    return str(value)


Boolean = Annotated[bool, PlainValidator(_boolean)]
Duration = Annotated[timedelta, PlainValidator(_duration)]
Timeout = Annotated[timedelta, PlainValidator(_timeout)]
Attempts = Annotated[int, PlainValidator(_attempts)]
Host = Annotated[str, PlainValidator(_host)]
Port = Annotated[int, PlainValidator(_port)]
Names = Annotated[tuple[str, ...], PlainValidator(names)]
Endpoint = Annotated[str, PlainValidator(_endpoint)]
Pair = Annotated[str, PlainValidator(_pair)]
Rate = Annotated[Decimal, PlainValidator(_rate)]
Secret = Annotated[SecretStr, PlainValidator(_secret)]
Text = Annotated[str, PlainValidator(_text)]
Polls = Annotated[int, PlainValidator(_polls)]
DatabaseUrl = Annotated[str, PlainValidator(_database_url)]
Url = Annotated[str, PlainValidator(_url)]
Token = Annotated[SecretStr, PlainValidator(_token)]
PastDay = Annotated[date, PlainValidator(_past_day)]
