"""Why a place is declined because of its file: it is not the project's, cannot be read, or nothing in it is sure.

In: an Edit with its place. Out: `Declined`.
"""

from __future__ import annotations

from tracelens.messages import say
from tracelens.model import Declined, Edit, Location
from tracelens.patch.proposal import Proposal, RecipeRequest, Target


def outside(edit: Edit, location: Location | None) -> Declined:
    place = location or Location("?", None)
    return Declined(edit.kind, place, say("it is not a file of this project"), say("change the call that leads there"))


def replaced(request: RecipeRequest, target: Target) -> Declined:
    place = Location(request.source.shown, target.line)
    obstacle = say("{replaced}, and nobody knows what it does then", replaced=request.source.effects.replaced)
    return Declined(request.edit.kind, place, obstacle, say("take the replacement out, then apply again"))


def unreadable(edit: Edit, shown: str, why: str) -> Declined:
    return Declined(edit.kind, Location(shown, None), say("the file {why}", why=why), say("change it by hand"))


def given_up(proposal: Proposal, why: str) -> Declined:
    by_hand = say("change it by hand; if the sentence says something about the patched file, please report it as a bug")
    obstacle = say("the file is left as it is: {why}", why=why)
    return Declined(proposal.edit, proposal.location, obstacle, by_hand)
