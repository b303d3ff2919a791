"""Who owns each microsecond of a step: what the GPU did, and where it was idle, which line of the host kept it so.

operations     what the host did in a step: its operations, and stretches that have a name
join           carries the lines of the attributed steps over to the clean ones
host_lines     which line the host was at in every kept step
idle_segments  idle time cut where the host changes what it does, and what that is
lead           which wait idle time after it is due to
attribute      all of it added up by owner
    callees        what a line calls, by its text
"""

from tracelens.findings.owners.attribution import HostWork, OwnedStep, attribute
from tracelens.findings.owners.callees import with_callees

__all__ = ["HostWork", "OwnedStep", "attribute", "with_callees"]
