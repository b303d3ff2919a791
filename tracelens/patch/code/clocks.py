"""Clocks of Python, and the words by which a name tells that there is a clock behind it.

In: names. Out: yes or no. Only for what nobody can look into: of the project's own code, `effects` knows.
"""

from __future__ import annotations

import re

from tracelens.messages import say
from tracelens.patch.effects.words import words

MAY_LOOK = say("may look at a clock")
CLOCKS = words(
    "time.time time.time_ns time.perf_counter time.perf_counter_ns time.monotonic time.monotonic_ns time.process_time"
    " time.process_time_ns time.thread_time time.thread_time_ns timeit.default_timer"
)
MOMENTS = words("datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today pandas.Timestamp.now")
TIMES_OF_DAY = words(
    "time.strftime time.ctime time.asctime time.localtime time.gmtime datetime.date.today pandas.Timestamp.utcnow"
    " pandas.Timestamp.today numpy.datetime64"
)
"""What decides by the calendar, where it is not given the time."""
_SPEAKS = words(
    "timer timers timing stopwatch clock speed speedometer throughput perf lap laps fps ips eta ticker ticktock"
)
_TIMES = words("tic toc lap start_timer stop_timer elapsed_time")
"""Methods that say the same."""
_LASTS = words("elapsed")
"""What an attribute says that is computed from a clock when it is asked for: `bar.elapsed_td`."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def speaks_of_time(name: str, of_class: bool = False) -> bool:
    """Whether a name such as `SpeedMeter` or `train_timer` says that there is a clock behind it."""
    parts = {part.lower() for part in _WORDS.findall(name)}
    return bool(parts & _SPEAKS) or (of_class and "time" in parts)


def lasts(attribute: str) -> bool:
    """Whether an attribute of an object that nobody can see is as long as something has taken until now."""
    return bool({part.lower() for part in _WORDS.findall(attribute)} & _LASTS)


def takes_time(method: str) -> bool:
    return method in _TIMES
