"""One answer in every format: valid by its schema, the same verdict, escape codes only where they are wanted."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import jsonschema
import pytest
from markdown_it import MarkdownIt

from tests.support import run_cases as cases
from tests.support.places import ROOT
from tracelens import cli
from tracelens.cli import main, output
from tracelens.report import markdown_syntax

pytestmark = pytest.mark.slow  # most of these run several whole commands

Capture = pytest.CaptureFixture[str]
FORMATS = {
    "analyze": ["text", "json", "markdown", "github", "sarif"],
    "recommend": ["text", "json", "markdown", "github", "sarif"],
    "report": ["html", "text", "json", "markdown", "github", "sarif"],
    "check": ["text", "json", "markdown", "github", "sarif"],
    "compare": ["text", "json", "markdown", "github", "sarif"],
    "apply": ["text", "json"],
    "revert": ["text", "json"],
    "verify": ["text", "json"],
    "try": ["text", "json"],
    "patch": ["text", "json"],
    "annotate": ["text", "json"],
    "doctor": ["text", "json"],
    "rules": ["text", "json", "markdown"],
    "fix": ["text", "json"],
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = cases.recorded(tmp_path)
    monkeypatch.chdir(tmp_path)
    return folder


def schema(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / f"{name}.schema.json").read_text()))


def test_each_command_that_answers_has_these_formats() -> None:
    found = {
        name: list(option.type.choices)  # type: ignore[attr-defined]
        for name, command in cli.root.commands.items()
        for option in command.params
        if option.name == "form"
    }
    assert found == FORMATS


def test_each_schema_is_a_schema_and_belongs_to_a_command() -> None:
    names = {path.name.removesuffix(".schema.json") for path in (ROOT / "docs").glob("*.schema.json")}
    assert names == {"analysis", "apply", "annotate", "check", "compare", "doctor", "patch", "revert", "verify"}
    for name in names:
        jsonschema.Draft202012Validator.check_schema(json.loads((ROOT / "docs" / f"{name}.schema.json").read_text()))


@pytest.mark.parametrize("command", ["analyze", "recommend", "report"])
def test_the_verdict_is_the_same_sentence_in_every_format(command: str, run: Path, capsys: Capture) -> None:
    assert main([command, str(run), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema("analysis").validate(document)
    verdict, headline = document["verdict"], document["headline"]
    assert len(verdict) > 40
    for form in ("text", "markdown", "github", "sarif"):
        assert main([command, str(run), "--format", form, *(["-o", "-"] if command == "report" else [])]) == 0
        out = capsys.readouterr().out
        if form == "sarif":
            assert json.loads(out)["runs"][0]["properties"]["verdict"] == verdict
        else:
            short = verdict if command == "analyze" else headline  # a terminal has the headline and its lines
            said = {"markdown": markdown_syntax.plain(verdict), "github": verdict.replace("%", "%25"), "text": short}[
                form
            ]
            assert " ".join(said.split()) in " ".join(out.split())


def test_the_page_has_the_verdict_of_the_json(run: Path, capsys: Capture) -> None:
    assert main(["recommend", str(run), "--format", "json"]) == 0
    verdict = json.loads(capsys.readouterr().out)["verdict"]
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    shown = re.search(r'<meta name="description" content="(.*?)">', page, re.DOTALL)
    assert shown is not None and unescape(shown[1]) == verdict


def test_apply_and_revert_answer_programs(run: Path, capsys: Capture) -> None:
    for words, outcome in ((["--dry-run"], "shown"), ([], "written"), ([], "already")):
        assert main(["apply", str(run), "--format", "json", *words]) == 0
        streams = capsys.readouterr()
        document = json.loads(streams.out)
        schema("apply").validate(document)
        assert document["outcome"] == outcome and document["patch"]["hunks"]
    assert main(["revert", str(run), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema("revert").validate(document)
    assert sorted(document["restored"]) == ["train.py"]


def test_annotate_answers_programs(run: Path, capsys: Capture) -> None:
    trace = next(run.glob("rank0/*.gz"))
    assert main(["annotate", str(trace), "-o", "out.json.gz", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema("annotate").validate(document)
    assert Path(document["written"]).stat().st_size == document["bytes"]


def test_the_recorded_verifications_keep_to_their_schema() -> None:
    files = sorted((ROOT / "sample_traces").glob("*/run/verify.json"))
    assert len(files) >= 5
    for file in files:
        schema("verify").validate(json.loads(file.read_text()))


def test_nothing_to_verify_is_an_empty_list_for_programs(tmp_path: Path, capsys: Capture) -> None:
    """A loop that waits for nothing: nothing is recommended, so there is nothing to measure."""
    folder = cases.recorded(tmp_path)
    cases.trace(folder / "rank0" / "made.pt.trace.json.gz", steps=2)
    code = main(["verify", str(folder), "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    schema("verify").validate(document)
    assert (code, document["entries"]) == (0, [])


# -------------------------------------------------------------------------------------------- reports of all kinds


@pytest.mark.parametrize(
    ("form", "name"), [("html", "report.html"), ("markdown", "report.md"), ("sarif", "report.sarif")]
)
def test_formats_that_are_files_go_into_the_run(form: str, name: str, run: Path, capsys: Capture) -> None:
    assert main(["report", str(run), "--format", form]) == 0
    assert capsys.readouterr().out.strip() == str(run / name) and (run / name).stat().st_size > 500


def test_dash_is_stdout_and_a_scheme_belongs_to_the_record(run: Path, capsys: Capture) -> None:
    assert main(["report", str(run), "--format", "markdown", "-o", "-", "--scheme", "event-sync"]) == 0
    assert "# Implementation record: Scheme 2:" in capsys.readouterr().out
    assert main(["report", str(run), "--scheme", "event-sync"]) == 2
    assert "--format markdown" in capsys.readouterr().err
    assert main(["report", str(run), "--format", "markdown", "--scheme", "event-snc"]) == 2
    assert "Did you mean 'event-sync'?" in capsys.readouterr().err


def test_a_record_says_whether_the_patch_is_in(run: Path, capsys: Capture) -> None:
    words = ["report", str(run), "--format", "markdown", "-o", "-"]
    assert main(words) == 0 and "not applied" in capsys.readouterr().out
    assert main(["apply", str(run)]) == 0
    capsys.readouterr()
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "**patch made, applied, not verified yet**" in out and "- [x] applied" in out


@pytest.mark.parametrize("form", ["html", "text", "json", "markdown", "github", "sarif"])
def test_a_redacted_report_names_no_file_of_ours_in_any_format(form: str, run: Path, capsys: Capture) -> None:
    assert main(["report", str(run), "--format", form, "--redact", "-o", "-"]) == 0
    out = capsys.readouterr().out
    assert len(out) > 300 and "train.py" not in out and run.name not in out and "losses.append" not in out
    if form == "markdown":
        assert "patch left out" in out and "no patch can be made" not in out
    assert main(["report", str(run), "--format", "html", "--redact", "-q"]) == 0
    assert capsys.readouterr().out.strip() == str(run / "report.html")


# ------------------------------------------------------------------------------------------------- quiet, verbose


def test_quiet_leaves_the_verdict_and_verbose_shows_every_row(run: Path, capsys: Capture) -> None:
    assert main(["recommend", str(run), "--format", "json"]) == 0
    verdict = json.loads(capsys.readouterr().out)["verdict"]
    assert main(["recommend", str(run), "-q"]) == 0
    streams = capsys.readouterr()
    assert streams.out.strip() == verdict and streams.err == ""
    assert main(["analyze", str(run), "-v"]) == 0
    streams = capsys.readouterr()
    assert re.search(r"reading the recording … [\d.]+ s", streams.err)
    assert main(["analyze", str(run), "-v", "-q"]) == 2


@pytest.mark.parametrize("words", [["apply", "--dry-run"], ["check", "--max-syncs-per-step", "9"], ["rules"]])
def test_quiet_is_short_for_every_command(words: list[str], run: Path, capsys: Capture) -> None:
    given = [words[0], *([] if words[0] == "rules" else [str(run)]), *words[1:], "-q"]
    assert main(given) == 0
    streams = capsys.readouterr()
    assert streams.err == "" and 1 <= len(streams.out.splitlines()) <= 40 and "next:" not in streams.out


# -------------------------------------------------------------------------------------------------------- colors


class Ran:
    """What `analyze` prints with these words and variables, nothing else of the environment in the way."""

    def __init__(self, run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run, self.capsys, self.monkeypatch = run, capsys, monkeypatch

    def __call__(self, *words: str, **environment: str) -> str:
        with self.monkeypatch.context() as patched:
            for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
                patched.delenv(name, raising=False)
            for name, value in environment.items():
                patched.setenv(name, value)
            assert main(["analyze", str(self.run), *words]) == 0
        return self.capsys.readouterr().out


@pytest.fixture
def ran(run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Ran:
    return Ran(run, capsys, monkeypatch)


def test_escape_codes_where_asked_for_and_nowhere_else(ran: Ran) -> None:
    assert "\x1b" not in ran()
    assert "\x1b[" in ran("--color", "always", NO_COLOR="1")
    assert "\x1b[" in ran(FORCE_COLOR="1") and "\x1b" not in ran(FORCE_COLOR="1", NO_COLOR="1")
    assert "\x1b" not in ran("--color", "never", FORCE_COLOR="1")


def test_a_terminal_gets_colors_unless_it_is_dumb(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert output.terminal_style(stream=Terminal()).color  # type: ignore[arg-type]
    monkeypatch.setenv("TERM", "dumb")
    assert not output.terminal_style(stream=Terminal()).color  # type: ignore[arg-type]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not output.terminal_style(stream=Terminal()).color  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_narrow_terminal_loses_no_number(columns: int, ran: Ran) -> None:
    wide, narrow = ran(), ran(COLUMNS=str(columns))
    numbers = re.compile(r"\d[\d.]*\d")
    assert set(numbers.findall(wide)) - set(numbers.findall(narrow)) == set()
    prose = [line for line in narrow.splitlines() if not line.startswith(("next:", "  -->"))]
    assert max(map(len, prose)) <= columns


def test_the_caret_stays_under_the_call_in_a_narrow_terminal(ran: Ran) -> None:
    lines = ran("-v", COLUMNS="50").splitlines()
    marked_lines = [i for i, line in enumerate(lines) if "^^^" in line]
    assert marked_lines
    code, caret = lines[marked_lines[0] - 1], lines[marked_lines[0]]
    assert code[caret.index("^") :].startswith(("torch.cuda.synchronize", "loss.item"))


# ----------------------------------------------------------------------------------- the next command, hostile names


@pytest.mark.programs
@pytest.mark.parametrize(
    "words",
    [
        ["analyze", "RUN"], ["recommend", "RUN"], ["report", "RUN"], ["apply", "RUN", "--dry-run"], ["apply", "RUN"],
        ["compare", "RUN", "RUN"], ["check", "RUN", "--max-step-ms", "9"], ["check", "RUN", "--max-step-ms", "0"],
        ["annotate", "RUN", "-o", "out.json"], ["rules"], ["rules", "sync_stall"], ["doctor"],
    ],
)  # fmt: skip
def test_every_command_ends_with_the_next_one(words: list[str], run: Path, capsys: Capture) -> None:
    assert main([str(run) if word == "RUN" else word for word in words]) in (0, 1)
    streams = capsys.readouterr()
    (following,) = re.findall(r"^next: (.+)$", streams.out + streams.err, re.MULTILINE)
    assert following.startswith("open it at") or following.split()[1] in cli.root.commands


EVIL = "evil\n::error file=x::pwned\n# heading\n\x1b[31m<script>|`@all"


@pytest.mark.parametrize("command", ["analyze", "recommend", "report", "check", "compare"])
def test_names_from_a_trace_act_in_no_format(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = cases.trace(tmp_path / "t.json")
    document = json.loads(trace.read_text())
    for row in document["traceEvents"]:
        for old in ("cudaDeviceSynchronize", "gemm"):
            row["name"] = row["name"].replace(old, f"{old} {EVIL}") if row.get("ph") == "X" else row["name"]
        if str(row["name"]).startswith("train.py("):
            row["name"] = row["name"].replace("train.py", f"train{EVIL}.py")
    trace.write_text(json.dumps(document))
    extra = {"check": ["--max-step-ms", "0"], "compare": [str(trace)], "report": ["-o", "-"]}.get(command, [])
    for form in ("text", "json", "markdown", "github", "sarif"):
        assert main([command, str(trace), *extra, "--format", form, "-v"]) in (0, 1)
        out = capsys.readouterr().out
        assert "\x1b" not in out and not re.search(r"^(::error file=x|# heading)", out, re.MULTILINE), form
        if form == "markdown":
            assert "<script" not in str(MarkdownIt("commonmark").enable("table").render(out))
