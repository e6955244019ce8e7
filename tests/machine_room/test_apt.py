"""Sources of packages: the host's mirror, in each form that apt supports."""

from __future__ import annotations

from pathlib import Path

import pytest
from stampworks.machine_room import RoomError
from stampworks.machine_room.apt import KEYRING, sources_of

DEB822 = """\
Types: deb deb-src
# a remark in the middle
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/own.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""

ONE_LINE = """\
# deb http://commented.example/debian bookworm main
deb [arch=amd64 signed-by=/etc/own.asc] http://mirror.example/debian bookworm main  # a remark
deb-src http://sources.example/debian bookworm main
deb http://mirror.example/debian-security bookworm-security main
"""


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """An /etc of a Debian 12 without any source."""
    (tmp_path / "apt/sources.list.d").mkdir(parents=True)
    release = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_CODENAME=bookworm\n'
    (tmp_path / "os-release").write_text(release)
    return tmp_path


def test_sources_in_stanzas(etc: Path) -> None:
    """The newer form: the same mirror and keyring, the node's suite and not the host's."""
    (etc / "apt/sources.list.d/debian.sources").write_text(DEB822)
    assert sources_of("trixie", etc) == (
        "deb [signed-by=/usr/share/keyrings/own.gpg] http://mirror.example/debian trixie main",
        f"deb [signed-by={KEYRING}] http://mirror.example/debian-security trixie-security main",
    )


def test_sources_in_lines(etc: Path) -> None:
    """The older one-line form; comments and source entries do not count."""
    (etc / "apt/sources.list").write_text(ONE_LINE)
    assert sources_of("trixie", etc) == (
        "deb [signed-by=/etc/own.asc] http://mirror.example/debian trixie main",
        f"deb [signed-by={KEYRING}] http://mirror.example/debian-security trixie-security main",
    )


def test_other_publishers_are_not_taken_for_debian(etc: Path) -> None:
    """Some use Debian's suite names: a directory called `debian` wins over the order of entries."""
    (etc / "apt/sources.list.d/a.list").write_text("deb http://vendor.example/apt bookworm main\n")
    (etc / "apt/sources.list.d/b.list").write_text("deb http://mirror.example/debian bookworm main\n")
    (etc / "apt/sources.list.d/c.sources").write_text(DEB822.replace("Types:", "Enabled: no\nTypes:"))
    assert sources_of("trixie", etc) == (f"deb [signed-by={KEYRING}] http://mirror.example/debian trixie main",)


def test_a_host_that_is_no_debian_is_told_so(etc: Path) -> None:
    """The message has the missing program, why it matters, and a remedy."""
    (etc / "os-release").write_text('ID=fedora\nPRETTY_NAME="Fedora Linux 44"\n')
    with pytest.raises(RoomError) as refused:
        sources_of("trixie", etc)
    assert str(refused.value) == (
        "node image: cannot find a Debian mirror: it uses the mirrors of this host's apt, and this host is "
        "Fedora Linux 44\n  hint: run the local cloud on Debian 12 or newer"
    )


def test_a_debian_without_sources_is_told_so(etc: Path) -> None:
    """The error names the paths that were searched."""
    with pytest.raises(RoomError) as refused:
        sources_of("trixie", etc)
    assert str(refused.value) == (
        f"node image: cannot find a Debian mirror: no source in {etc}/apt has the suite bookworm with the component "
        "main\n  hint: see: apt-cache policy"
    )
