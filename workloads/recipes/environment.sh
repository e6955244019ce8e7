#!/bin/sh
# Make ~/recipes the environment of requirements.lock, unless it is: all nodes see the home, and one of them makes it.
set -eu

exec 9>~/.recipes.lock
flock 9
if ! cmp -s requirements.lock ~/recipes/requirements.lock; then
    python3 -m venv --clear ~/recipes
    ~/recipes/bin/pip install --require-hashes -r requirements.lock
    cp requirements.lock ~/recipes/ # last: now it is whole
fi
