"""Who owns each microsecond of a step: what the GPU did, and where it was idle, which line of the host kept it so.

operations     what the host did in a step: its operations, and stretches that have a name
join           carries the lines of the attributed steps over to the clean ones
host_lines     which line the host was at in every kept step
forward_nodes  which lines the nodes of a backward pass belong to
idle_segments  idle time cut where the host changes what it does, and what that is
lead           which wait idle time after it is due to
pieces         segments cut where that ends
sums           group-by of columns
attribute      all of it added up by owner
line_work      what each line does on the host, idle or not
loop_work      what the lines do that a step runs again and again
loops          which loop of its file a line stands in, by its text
slow_lines     at which lines a slow step spends what an ordinary one does not take
slow_steps     owners of what slow steps add to the mean step
callees        what a line calls, by its text
"""

from tracelens.findings.owners.attribution import OwnedStep, attribute
from tracelens.findings.owners.callees import with_callees
from tracelens.findings.owners.line_work import LineWork
from tracelens.findings.owners.loop_work import LoopWork
from tracelens.findings.owners.loops import around as loop_around

__all__ = ["LineWork", "LoopWork", "OwnedStep", "attribute", "loop_around", "with_callees"]
