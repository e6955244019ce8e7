#!/bin/sh
# Make ~/recipes the environment of requirements.lock, unless it is: all nodes see the home, and one of them makes it.
set -eu

exec 9>~/.recipes.lock
flock 9
if ! cmp -s requirements.lock ~/recipes/requirements.lock; then
    rm -rf ~/recipes
    if [ -e packages.tar.gz ]; then # brought along by run.sh
        mkdir ~/recipes
        tar --extract --gzip --directory ~/recipes --file packages.tar.gz
    else
        python3 -m venv ~/recipes
        ~/recipes/bin/pip install --require-hashes -r requirements.lock || {
            echo "environment.sh: do these nodes reach no package index? Submit with workloads/recipes/run.sh" >&2
            exit 1
        }
    fi
    cp requirements.lock ~/recipes/ # last: now it is whole
fi
rm -f packages.tar.gz
