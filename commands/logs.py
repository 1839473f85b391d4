"""Logs: a line for each event on stderr, in logfmt."""

import logging
import sys
from typing import Any

import stamina.instrumentation
import structlog
from structlog.typing import Processor

from commands.output import visible


def log_to_stderr(level: str) -> None:
    """Log from this level on, ours and the libraries' warnings alike."""
    lowest = logging.getLevelNamesMapping()[level.upper()]
    told: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    written: list[Processor] = [
        structlog.processors.LogfmtRenderer(key_order=("timestamp", "level", "event")),
        _visible,
    ]
    structlog.configure(
        processors=[*told, *written],
        wrapper_class=structlog.make_filtering_bound_logger(lowest),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    library = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*told, structlog.stdlib.add_logger_name],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *written],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(library)
    # On the handler too: a library's logger may have a level of its own, and the root's is not asked then.
    handler.setLevel(max(lowest, logging.WARNING))
    logging.basicConfig(handlers=[handler], level=handler.level)
    # A poll that failed says so itself, once, with its name; stamina would tell of each attempt, without one.
    stamina.instrumentation.set_on_retry_hooks([])


def _visible(_logger: object, _method: str, line: Any) -> str:
    return visible(line)
