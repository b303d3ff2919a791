"""The files of `rules/`, with a folder of the user's laid over ours.

In: two folders. Out: `RuleFiles`: the text, or the YAML, of a file by its relative path. A file that cannot be read is
a mistake that is collected, like those in its content, so that all of them are reported at once.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from tracelens.messages import joined, say

FOLDERS = ("schemes/*/rule.yaml", "findings/*.yaml", "levers/*.yaml", "recipes/*/*")


class RuleFiles:
    """Relative path → file on disk, the user's over ours."""

    def __init__(self, ours: Path, theirs: Path | None, mistakes: list[str]) -> None:
        self.mistakes = mistakes
        self._paths: dict[str, Path] = {}
        if theirs is not None and not theirs.is_dir():
            mistakes.append(say("{theirs}: is not a folder", theirs=theirs))
        for folder in (ours, theirs):
            if folder is not None and folder.is_dir():
                self._paths |= {path.relative_to(folder).as_posix(): path for path in _files_below(folder)}
        known = (
            "weights.yaml",
            "measures.yaml",
            "schemes/*/rule.yaml",
            "findings/*.yaml",
            "levers/*.yaml",
            "recipes/*/*",
        )
        if theirs is not None and theirs.is_dir():
            names = sorted(path.relative_to(theirs).as_posix() for path in _files_below(theirs))
            read = [name for name in names if any(PurePosixPath(name).match(form) for form in known)]
            if not read:
                mistakes.append(
                    say("{theirs}: holds no rule: expected {known}", theirs=theirs, known=joined(", ", known))
                )
            for name in names:
                if name.endswith((".yaml", ".yml")) and name not in read:
                    mistakes.append(
                        say("{name}: no rule is read from here: expected {known}", name=name, known=joined(", ", known))
                    )

    def matching(self, form: str) -> tuple[str, ...]:
        depth = form.count("/")
        return tuple(
            name for name in sorted(self._paths) if name.count("/") == depth and PurePosixPath(name).match(form)
        )

    def text(self, name: str) -> str | None:
        """The text of a file; None with the mistake noted where it cannot be read."""
        if name not in self._paths:
            self.mistakes.append(say("{name}: is missing", name=name))
            return None
        try:
            return self._paths[name].read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self.mistakes.append(say("{name}: cannot be read: {error}", name=name, error=error))
            return None

    def yaml(self, name: str) -> Any:
        """What a YAML file holds; None with the mistake noted where it holds nothing usable."""
        text = self.text(name)
        if text is None:
            return None
        import yaml

        from tracelens.rule_files.unique_keys import UniqueKeys

        try:
            value = yaml.load(text, Loader=UniqueKeys)
        except yaml.MarkedYAMLError as error:
            line = say("line {line}: ", line=error.problem_mark.line + 1) if error.problem_mark else ""
            self.mistakes.append(
                say("{name}: {line}not YAML: {problem}", name=name, line=line, problem=error.problem or error.context)
            )
            return None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            self.mistakes.append(say("{name}: not YAML: {split}", name=name, split=joined(" ", str(error).split())))
            return None
        if value is None:
            self.mistakes.append(say("{name}: is empty", name=name))
        return value


def _files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
