"""The European Central Bank's list of reference rates. Every simulated cloud serves it beside its own, for whoever
compares prices in several currencies.
"""

from datetime import date, timedelta

PATH = "/stats/eurofxref/eurofxref-daily.xml"
RATES = {
    "USD": "1.1172",
    "JPY": "175.68",
    "GBP": "0.8338",
    "AUD": "1.5904",
    "CAD": "1.5606",
    "CNY": "7.4326",
    "HKD": "8.7652",
    "INR": "106.084",
    "KRW": "1491.76",
    "SGD": "1.4282",
}
"""Those of 2026-10-30, whatever the day."""
_ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01" '
    'xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref">\n'
    "\t<gesmes:subject>Reference rates</gesmes:subject>\n"
    "\t<gesmes:Sender>\n\t\t<gesmes:name>European Central Bank</gesmes:name>\n\t</gesmes:Sender>\n"
    "\t<Cube>\n\t\t<Cube time='{day}'>\n{rates}\t\t</Cube>\n\t</Cube>\n</gesmes:Envelope>"
)


def daily(today: date) -> bytes:
    """Return the list of the last working day before this one: today's comes out in the afternoon."""
    day = today - timedelta(days=max(1, (today.weekday() + 6) % 7 - 3))
    rates = "".join(f"\t\t\t<Cube currency='{currency}' rate='{rate}'/>\n" for currency, rate in RATES.items())
    return _ENVELOPE.format(day=day.isoformat(), rates=rates).encode()
