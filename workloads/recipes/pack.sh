#!/bin/sh
# Write ~/recipes as a tar, for nodes that reach no package index: pack.sh | ssh HEAD tar --extract
# It is all of requirements.lock for their Python (the first argument, 3.13), but for torch, which nodes have.
# Needs uv. A Python of the nodes' version is not needed.
set -eu

lock="$(cd "$(dirname "$0")" && pwd)/requirements.lock"
python="${1:-3.13}"
work="$(mktemp -d)"
trap 'rm -r "$work"' EXIT
mkdir -p "$work/recipes/bin"
{
    echo torch
    grep -oE '^(triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+)' "$lock"
} >"$work/nodes-have"
uv pip install --quiet --target "$work/recipes/lib/python$python/site-packages" --python-version "$python" \
    --python-platform "$(uname -m)-manylinux_2_28" --excludes "$work/nodes-have" --require-hashes -r "$lock" >&2
cat >"$work/recipes/pyvenv.cfg" <<CONFIG
home = /usr/bin
include-system-site-packages = true
CONFIG
ln -s /usr/bin/python3 "$work/recipes/bin/python"
for program in torchrun:torch.distributed.run ray:ray.scripts.scripts; do
    # shellcheck disable=SC2016 # the program's own directory, where it runs
    printf '#!/bin/sh\nexec "$(dirname "$0")/python" -m %s "$@"\n' "${program#*:}" >"$work/recipes/bin/${program%%:*}"
    chmod +x "$work/recipes/bin/${program%%:*}"
done
cp "$lock" "$work/recipes/"
tar --create --directory "$work" --owner 0 --group 0 recipes
