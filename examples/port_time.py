"""mcp-server-time, ported: the same responses to the same calls. It needs the extra `mcp`.

jsonrpc-fast call --mcp get_current_time timezone=Europe/Lisbon -- python examples/port_time.py
jsonrpc-fast call --mcp convert_time source_timezone=Asia/Tokyo time=09:30 target_timezone=Asia/Kathmandu -- \
    python examples/port_time.py
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from jsonrpc_fast.mcp.server import Server, ToolAnnotations, ToolError

HINTS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
server = Server("mcp-time", "1.0")


@dataclass
class TimeResult:
    timezone: str
    datetime: str
    day_of_week: str
    is_dst: bool


@dataclass
class TimeConversionResult:
    source: TimeResult
    target: TimeResult
    time_difference: str


def zone_of(argument: str, name: str) -> ZoneInfo:
    if not name:
        raise ToolError(f"Missing required argument: {argument}")
    try:
        zone = ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise ToolError(f"Invalid timezone: {error}") from error
    if name not in available_timezones():  # on a file system that ignores case
        raise ToolError(f"Invalid timezone: 'No time zone found with key {name}'")
    return zone


def described(moment: datetime, timezone: str) -> TimeResult:
    return TimeResult(timezone, moment.isoformat(timespec="seconds"), f"{moment:%A}", bool(moment.dst()))


@server.tool(annotations=HINTS)
def get_current_time(timezone: str) -> TimeResult:
    """Get the current time in a timezone.

    Args:
        timezone: An IANA name, such as 'Europe/London'.
    """
    return described(datetime.now(zone_of("timezone", timezone)), timezone)


@server.tool(annotations=HINTS)
def convert_time(source_timezone: str, time: str, target_timezone: str) -> TimeConversionResult:
    """Convert a time of today between timezones.

    Args:
        source_timezone: The IANA name of the timezone of `time`.
        time: The time, as HH:MM with 24 hours.
        target_timezone: The IANA name of the timezone to convert to.
    """
    source_zone = zone_of("source_timezone", source_timezone)
    target_zone = zone_of("target_timezone", target_timezone)
    try:
        given = datetime.strptime(time, "%H:%M").time()
    except ValueError:
        raise ToolError("Invalid time format. Expected HH:MM [24-hour format]") from None
    today = datetime.now(source_zone).date()
    source = datetime.combine(today, given, source_zone)
    if datetime.fromtimestamp(source.timestamp(), source_zone).time() != given:
        raise ToolError(
            f"Invalid time: {time} does not exist in {source_timezone} on {today} (skipped by a clock change)"
        )
    target = source.astimezone(target_zone)
    hours = ((target.utcoffset() or timedelta()) - (source.utcoffset() or timedelta())) / timedelta(hours=1)
    difference = f"{hours:+.1f}h" if hours.is_integer() else f"{hours:+.2f}".rstrip("0") + "h"
    return TimeConversionResult(described(source, source_timezone), described(target, target_timezone), difference)


if __name__ == "__main__":
    raise SystemExit(server.serve_stdio())
