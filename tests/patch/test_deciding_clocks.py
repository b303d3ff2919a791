"""A clock that decides what a loop does would decide at another batch if the host ran ahead: its reads stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import patch_of, script
from tracelens.patch.every_place import patch_script
from tracelens.patch.recipes import PatchOptions

HEAD = "import time\nstart, limit, total = time.time(), 3600.0, 0.0\n"
LOOP = HEAD + "for i, (x, y) in enumerate(loader):\n    STEP\n    total += loss.item()  # fires\n{body}\nprint(total)\n"
DECIDES = {
    "the end": "    if time.time() - start > limit:\n        break",
    "the end, by a moment": "    now = time.monotonic()\n    if now > limit:\n        print('deadline')\n        break",
    "an error": "    if time.time() > start + limit:\n        raise TimeoutError(i)",
    "a checkpoint": "    if time.time() - start > 600:\n        torch.save(model, 'm.pt')\n        start = time.time()",
    "a line": "    if time.perf_counter() - start > 0.1:\n        print(i, total)\n        start = time.perf_counter()",
    "a rate": "    share = min(1.0, (time.time() - start) / limit)\n    for group in optimizer.param_groups:\n"
    "        group['lr'] = 0.1 * (1 - share)",
    "a minute": "    if time.localtime().tm_min != limit:\n        torch.save(model, 'm.pt')",
    "a text of the time": "    if time.strftime('%H') == '23':\n        break",
    "a name that has such a text": "    today = time.ctime()\n    if today[:3] == 'Sun':\n        break",
    "one of two values": "    print(i, 'slow' if time.time() - start > limit else 'fast')",
}


@pytest.mark.parametrize("what", DECIDES)
def test_where_the_clock_decides_nothing_waits(what: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(LOOP.format(body=DECIDES[what])))
    assert patch.empty
    assert "the clock decides in line" in patch.declined[0].obstacle


def test_a_function_of_the_file_that_asks_the_clock_decides_as_well(tmp_path: Path) -> None:
    text = "import time\ndef is_over():\n    return time.time() > 1e12\n" + LOOP.removeprefix("import time\n")
    patch = patch_of(tmp_path, script(text.format(body="    if is_over():\n        break")))
    assert patch.empty and "the clock decides" in patch.declined[0].obstacle


SMOOTH = """    dt = time.time() - start
    start = time.time()
    mfu = 1.0 / dt
    running = mfu if running == -1.0 else 0.9 * running + 0.1 * mfu
    if i % 10 == 0:
        print(i, total, running)
"""


@pytest.mark.parametrize("then", ["", "    if running > 3:\n        break\n"])
def test_a_choice_between_two_times_is_a_time(then: str, tmp_path: Path) -> None:
    """nanoGPT smooths what it shows; where that decides something, it does."""
    patch = patch_of(tmp_path, script("running = -1.0\n" + LOOP.format(body=SMOOTH + then)))
    told = [item.obstacle for item in patch.declined]
    assert any("the clock decides in line" in text for text in told) == bool(then)
    chosen = SMOOTH.replace("mfu if", "save(mfu) if")
    patch = patch_of(tmp_path, script("running = -1.0\nsave = print\n" + LOOP.format(body=chosen)))
    assert "the clock decides in line" in patch.declined[0].obstacle


def test_what_decides_in_another_function_is_not_proved(tmp_path: Path) -> None:
    """A checkpoint every ten minutes, behind a call."""
    helper = "last = [0.0]\ndef maybe_save():\n    if time.time() - last[0] > 600:\n        last[0] = time.time()\n"
    text = HEAD + helper + LOOP.removeprefix(HEAD).format(body="    maybe_save()")
    patch = patch_of(tmp_path, script(text))
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert "what the clock is read for, a time that is written or decides, may be another" in patch.hunks[0].unproved


def test_a_time_that_is_written_beside_the_value_is_not_proved(tmp_path: Path) -> None:
    text = HEAD + "for i, (x, y) in enumerate(loader):\n    STEP\n    print(i, time.time(), loss.item())  # fires\n"
    assert [hunk.tier for hunk in patch_of(tmp_path, script(text)).hunks] == ["checked"]


def test_a_span_that_is_shown_every_few_batches_decides_nothing(tmp_path: Path) -> None:
    body = "    if i % 10 == 9:\n        print(i, total, time.time() - start)\n        start = time.time()"
    assert [hunk.edit for hunk in patch_of(tmp_path, script(LOOP.format(body=body))).hunks] == ["defer-read"]


OF_THE_DAY = {
    "a method that saves once a day": "class Daily:\n    def __init__(self): self.day = NOW\n    def maybe(self, i):\n"
    "        today = NOW\n        if today != self.day:\n            self.day = today\n"
    "            torch.save(model, f'{i}.pt')\nsaver = Daily()\n",
    "a file's name": "class Daily:\n    def maybe(self, i):\n        with open(f'log-{NOW}.txt', 'a') as out:\n"
    "            out.write(f'{i}')\nsaver = Daily()\n",
    "what is kept": "class Daily:\n    times = []\n    def maybe(self, i): self.times.append(NOW)\nsaver = Daily()\n",
    "what a function says": "def today(): return NOW\nclass Daily:\n    def maybe(self, i):\n"
    "        if today() in ('x', 'y'): torch.save(model, f'{i}.pt')\nsaver = Daily()\n",
}
NOW = (
    "time.strftime(DAY)",
    "time.gmtime()",
    "time.asctime()",
    "datetime.datetime.now().hour",
    "datetime.date.today()",
)


@pytest.mark.parametrize("now", NOW)
@pytest.mark.parametrize("what", OF_THE_DAY)
def test_a_time_of_day_that_may_decide_or_is_kept_is_not_proved(what: str, now: str, tmp_path: Path) -> None:
    text = "import datetime\nDAY = '%d'\n" + HEAD + OF_THE_DAY[what].replace("NOW", now)
    text += LOOP.removeprefix(HEAD).format(body="    saver.maybe(i)")
    patch = patch_of(tmp_path, script(text))
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert "what the clock is read for" in patch.hunks[0].unproved


OWN_WRITERS = {
    "a file": "open('log.txt', 'a').write(f'{time.strftime(\"%X\")} {loss.item()}')",
    "a text": "print(time.strftime('%X'), loss.item(), file=log)",
    "a method called write": "log.write(f'{time.strftime(\"%X\")} {loss.item()}')",
    "a stream of its own": "print(time.strftime('%X'), loss.item(), file=log)",
}


@pytest.mark.parametrize("how", OWN_WRITERS)
def test_a_time_that_a_file_or_a_class_of_the_project_is_handed_may_be_looked_at(how: str, tmp_path: Path) -> None:
    log = "class Log:\n    lines = []\n    def write(self, text):\n        if text.startswith('23'): raise SystemExit\n"
    text = f"{HEAD}{log}log = Log()\nfor i, (x, y) in enumerate(loader):\n    STEP\n    {OWN_WRITERS[how]}  # fires\n"
    patch = patch_of(tmp_path, script(text), checked=True, lossy=False)
    assert "safe" not in [hunk.tier for hunk in patch.hunks]


STAMPS = {
    "a text": "print(time.strftime('%X'), i)",
    "of a time that is given": "print(time.strftime('%X', time.gmtime(start)), i)",
    "of a clock": "print(time.strftime('%X', time.localtime(time.time())), i)",
    "of a function": "print(f'[{stamp()}]', i)",
    "of a function of a function": "log.line(i)",
}
STAMPING = """import datetime
def stamp():
    now = datetime.datetime.now()
    return now.strftime('%H:%M')
class Log:
    def line(self, text): print(f'{stamp()} {text}')
log = Log()
"""


@pytest.mark.parametrize("what", STAMPS)
@pytest.mark.parametrize("moved", [False, True])
def test_a_time_of_day_that_only_stands_on_a_line_is_that_of_the_line(moved: bool, what: str, tmp_path: Path) -> None:
    line = STAMPS[what].replace("i)", "loss.item())  # fires") if moved else STAMPS[what]
    body = HEAD + STAMPING + "for i, (x, y) in enumerate(loader):\n    STEP\n"
    kept = "" if moved else "    total += loss.item()  # fires\n"
    patch = patch_of(tmp_path, script(f"{body}{kept}    {line}\nprint(total)\n"), checked=False)
    assert [hunk.tier for hunk in patch.hunks] == ["safe"]


def test_a_program_that_is_watched_is_a_clock(tmp_path: Path) -> None:
    """And so is a log that begins another file at midnight: what waits goes into that of the next day."""
    text = "import subprocess\nother = subprocess.Popen(['sleep', '600'])\n" + LOOP
    patch = patch_of(tmp_path, script(text.format(body="    if other.poll() is not None:\n        break")))
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert "what the clock is read for" in patch.hunks[0].unproved
    text = "import logging\nfrom logging.handlers import HANDLER\nlog = logging.getLogger('t')\nlog.setLevel(20)\n"
    text += "log.addHandler(HANDLER('run.log'))\n"
    text += "for x, y in loader:\n    STEP\n    log.info('%.4f', loss.item())  # fires\n"
    for handler, tier in (("TimedRotatingFileHandler", "checked"), ("RotatingFileHandler", "safe")):
        patch = patch_of(tmp_path, script(text.replace("HANDLER", handler)), checked=True, lossy=False)
        assert [hunk.tier for hunk in patch.hunks] == [tier]


TIMED = """
smooth = None
for x, y in loader:
    torch.cuda.synchronize()
    begun = time.time()
    STEP
    torch.cuda.synchronize()
    spent = time.time() - begun
    smooth = spent if smooth is None else 0.9 * smooth + 0.1 * spent
    print(smooth)
"""


@pytest.mark.parametrize(
    ("behind", "tier"), [("print(smooth)", "safe"), ("if smooth > 1:\n    print('slow')", "checked")]
)
def test_a_time_that_decides_behind_the_loop_is_not_proved_by_events(behind: str, tier: str, tmp_path: Path) -> None:
    text = script(f"import time\n{TIMED.lstrip()}{behind}\n").replace('"cpu"', '"cuda"')
    (tmp_path / "train.py").write_text(text)
    patch = patch_script(tmp_path / "train.py", tmp_path, {"event-sync": 10}, PatchOptions())
    assert tier in [hunk.tier for hunk in patch.hunks]
    assert any("a time that it measures decides" in hunk.unproved for hunk in patch.hunks) == (tier == "checked")
