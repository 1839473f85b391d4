"""Logs: a line for each event on stderr, in logfmt."""

import logging
import sys
from typing import Any

import stamina.instrumentation
import structlog

from commands.output import visible


def log_to_stderr(level: str) -> None:
    """Log from this level on, ours and the libraries' warnings alike."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=("timestamp", "level", "event")),
            _visible,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    library = 'timestamp=%(asctime)s.%(msecs)03d level=%(levelname)s event="%(message)s" logger=%(name)s'
    logging.basicConfig(format=library, datefmt="%Y-%m-%dT%H:%M:%S", level=logging.WARNING, stream=sys.stderr)
    # A poll that failed says so itself, once, with its name; stamina would tell of each attempt, without one.
    stamina.instrumentation.set_on_retry_hooks([])


def _visible(_logger: object, _method: str, line: Any) -> str:
    return visible(line)
