"""The Run folder: where it is, what it holds, reading and writing it.

backup    the backup of an applied patch: its manifest, and which patch is in the files at present
folder    where a Run folder is, the names of its files
patch_folder  the folder of a patch that was made without a recording
reading   run.json and what lies beside the traces → `Run`
sources   which source text belongs to a Run: the training script as recorded, the files that locations name
writing   files written atomically
"""

from tracelens.run.backup import AppliedPatch, applied_patch
from tracelens.run.folder import (
    ANALYSIS_FILE,
    BACKUP_FOLDER,
    MONITOR_FILE,
    PATCH_FILE,
    REPORT_FILE,
    RUN_FILE,
    RUNS_FOLDER,
    SCHEMA_VERSION,
    is_run,
    new_folder,
    relative,
    sha256,
)
from tracelens.run.patch_folder import (
    PatchFolder,
    is_patch_folder,
    new_patch_folder,
    read_patch_folder,
    remove_patch_folder,
)
from tracelens.run.reading import newest, read, rows, samples
from tracelens.run.writing import temporary, write_bytes, write_json, write_output

__all__ = [
    "ANALYSIS_FILE",
    "BACKUP_FOLDER",
    "MONITOR_FILE",
    "PATCH_FILE",
    "REPORT_FILE",
    "RUNS_FOLDER",
    "RUN_FILE",
    "SCHEMA_VERSION",
    "AppliedPatch",
    "PatchFolder",
    "applied_patch",
    "is_patch_folder",
    "is_run",
    "new_folder",
    "new_patch_folder",
    "newest",
    "read",
    "read_patch_folder",
    "relative",
    "remove_patch_folder",
    "rows",
    "samples",
    "sha256",
    "temporary",
    "write_bytes",
    "write_json",
    "write_output",
]
