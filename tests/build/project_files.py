# SPDX-License-Identifier: Apache-2.0
"""The files that belong to the project: what git tracks or would track, or, in an unpacked archive, all
files but build output."""

import os
import subprocess


def git_files(root):
    """None where git is missing or root is no checkout."""
    if not os.path.exists(os.path.join(root, ".git")):
        return None
    try:
        git = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return [name for name in git.stdout.decode().split("\0") if name] if git.returncode == 0 else None


def project_files(root):
    """Paths relative to root, sorted."""
    names = git_files(root)
    if names is not None:
        return sorted(name for name in names if os.path.isfile(os.path.join(root, name)))
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in (".git", "__pycache__") and
                      not (folder == root and f.startswith("build"))]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace", newline="") as file:
        return file.read()
