"""`tracelens completion`: the script that makes a shell complete our commands, options and runs."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tracelens.cli import options, output
from tracelens.messages import say

VARIABLE = "_TRACELENS_COMPLETE"
"""Click's protocol: the shell calls `tracelens` with this variable and the words so far."""
SET_UP = {
    "bash": "echo 'eval \"$(tracelens completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(tracelens completion zsh)\"' >> ~/.zshrc",
    "fish": "tracelens completion fish > ~/.config/fish/completions/tracelens.fish",
}


@click.command(short_help="Completion for bash, zsh or fish.")
@click.argument("shell", type=options.ChoiceWithSuggestion(tuple(SET_UP)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options, levers and runs.

    \b
    bash:  echo 'eval "$(tracelens completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(tracelens completion zsh)"' >> ~/.zshrc
    fish:  tracelens completion fish > ~/.config/fish/completions/tracelens.fish
    """
    completion_class = get_completion_class(shell)
    if completion_class is None:  # click ships these three
        raise AssertionError(shell)
    script = completion_class(context.find_root().command, {}, "tracelens", VARIABLE)
    output.result(script.source_template % script.source_vars())  # without `source()`, which asks the shell's version
    output.note(say("\nto have it in every shell: {set_up}", set_up=SET_UP[shell]))
