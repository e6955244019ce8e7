"""Accounting in a managed database on another machine, which requires TLS."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from stampworks import configuration
from stampworks.schedulers import slurm

from tests.attached import attached
from tests.playbooks.conftest import SECRETS, Cluster, Edit, booted, plan_of

pytestmark = [pytest.mark.cluster, pytest.mark.long]

SERVER = "gpu-001"
"""A node that also runs the database, because there is no other machine."""
PUBLISHED, KNOWN = "/run/authorities.pem", "/etc/slurm/database-authorities.pem"
"""Files on the head, which has no internet: published certificate authorities, and those that slurmdbd trusts."""
SCHEDULER = {"accounting": True, "accounts": [{"name": "research"}]}
USERS = [{"name": "alice", "uid": 2001, "accounts": ["research"]}]
# Set up the database as RDS does: it exists, its user is no superuser, and a binary log is kept.
START = f"""
install -d -o mysql -g mysql /run/managed /var/lib/managed
cd /run/managed
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={SERVER} -keyout key -out certificate 2>/dev/null
cat > users.sql <<END
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER 'slurm'@'%' IDENTIFIED BY '{SECRETS["database_password"]}';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'%';
END
chown mysql *
mariadb-install-db --no-defaults --user=mysql --datadir=/var/lib/managed --skip-test-db
setsid mariadbd --no-defaults --user=mysql --datadir=/var/lib/managed --socket=/run/managed/socket --port=3306 \\
    --log-bin --innodb-lock-wait-timeout=900 --require-secure-transport=ON --init-file=/run/managed/users.sql \\
    --ssl-cert=/run/managed/certificate --ssl-key=/run/managed/key </dev/null >/run/managed/log 2>&1 &
/usr/local/libexec/stampworks/await-port 127.0.0.1 3306
"""


class WithDatabase(Cluster):
    """A cluster with a database of the cloud."""

    def inventory(self, edit: Edit = lambda _: None) -> dict[str, Any]:
        roster, found = (
            self.roster,
            replace(attached(self.plan), database=SERVER, database_authorities=f"file://{PUBLISHED}"),
        )
        files, content = slurm.files(self.plan, roster), configuration.install_digest()
        inventory = configuration.inventory(self.plan, roster, files, content=content, attached=found)
        edit(inventory["all"])
        return inventory


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithDatabase]:
    plan = plan_of(f"t{uuid.uuid4().hex[:8]}", 1, scheduler=SCHEDULER, users=USERS)
    with booted(plan, tmp_path_factory.mktemp("managed")) as nodes:
        made = WithDatabase(plan, nodes.key, nodes.image)
        made.shell(SERVER, START)
        made.shell("head", f"echo '{made.shell(SERVER, 'cat /run/managed/certificate')}' > {PUBLISHED}")
        made.play()
        yield made


def test_no_database_runs_on_the_head(cluster: WithDatabase) -> None:
    assert cluster.shell("head", "pgrep -c mariadbd || true") == "0"


def test_a_job_is_recorded_there_over_tls(cluster: WithDatabase) -> None:
    """The server requires TLS; the record is read through slurmdbd, and from its table."""
    job = cluster.shell("head", 'su alice -c "sbatch --parsable --output=/dev/null --wrap true"')
    cluster.until("head", f"sacct -X -n -P -j {job} --format=account,state", "research|COMPLETED")
    tables = f"SELECT state FROM slurm_acct_db.`{cluster.plan.name}_job_table` WHERE id_job = {job}"  # noqa: S608
    query = f"mariadb --no-defaults --skip-ssl -uroot -S /run/managed/socket -BNe '{tables}'"
    assert cluster.shell(SERVER, query) == "3"


def test_a_second_run_changes_nothing(cluster: WithDatabase) -> None:
    assert cluster.drift() == []
    assert cluster.play().changed == 0


def test_database_with_another_certificate_is_refused(cluster: WithDatabase) -> None:
    """An impostor of the database would get the password."""
    other = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={SERVER} -keyout /dev/null"
    cluster.shell("head", f"{other} -out {KNOWN} 2>/dev/null")
    with pytest.raises(Exception, match="TLS/SSL error") as refused:
        cluster.play()
    assert "service slurmdbd" in str(refused.value)
    cluster.shell("head", f"rm {KNOWN}")
    cluster.play()
    assert cluster.drift() == []


def test_a_wrong_password_is_said(cluster: WithDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the service and the server's answer, without the password."""
    monkeypatch.setitem(SECRETS, "database_password", "another1")
    with pytest.raises(Exception, match="Access denied") as refused:
        cluster.play()
    monkeypatch.undo()
    cluster.play()
    assert "service slurmdbd" in str(refused.value)
    assert "another1" not in str(refused.value)
