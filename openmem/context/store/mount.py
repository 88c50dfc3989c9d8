"""Whether a folder lies on a file system that cannot carry a shared WAL.

WAL needs memory shared by all that open the file. Over a network or a virtual machine's share it
silently gets none, and two writers destroy the database. Source: users' report 21.
"""

from __future__ import annotations

import os
import re

MOUNTS_FILE = "/proc/self/mountinfo"
_SHARED = re.compile(
    r"^(?:nfs\d?|cifs|smb\d?|smbfs|9p|virtiofs|afs|ceph|glusterfs|lustre|ncpfs|prl_fs|vboxsf|vmhgfs"
    r"|fuse\.(?:sshfs|grpcfuse|osxfs|vmhgfs-fuse|glusterfs|s3fs|rclone|davfs2?|portal)|fakeowner"
    r"|grpcfuse|osxfs)$"
)
_OCTAL = re.compile(r"\\([0-7]{3})")


def shared_file_system(path: str, mounts_file: str = MOUNTS_FILE) -> str:
    """Return the type of the network or virtual file system that holds `path`, "" for a local one.

    "" too where the system does not list its mounts (macOS).
    """
    try:
        with open(mounts_file, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except OSError:
        return ""  # no list of mounts on this system: taken as local
    wanted = os.path.realpath(path)
    best, kind = "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), fields[4])
        inside = wanted == point or wanted.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # a later mount on the same point hides an earlier
            best, kind = point, after.split(" ", 1)[0]
    return kind if _SHARED.match(kind) else ""
