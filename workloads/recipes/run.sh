#!/bin/sh
# Submit a recipe to nodes that reach no package index: run.sh NAME [OPTIONS of stampworks submit]
# Its job takes along all of requirements.lock for their Python ($NODES_PYTHON, 3.13), but for torch, which nodes have.
# Packed once and kept in the cache. Needs uv; a Python of the nodes' version is not needed.
set -eu

recipes="$(cd "$(dirname "$0")" && pwd)"
name="${1:-}"
if [ ! -e "$recipes/$name/job.yaml" ] || [ "$#" = 0 ]; then
    echo "run.sh: there is no recipe '$name': name a folder of $recipes" >&2
    exit 2
fi
shift
cache="${STAMPWORKS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stampworks}"
python="${NODES_PYTHON:-3.13}" platform="$(uname -m)-manylinux_2_28"
kept="$cache/recipes/$(cat "$recipes/requirements.lock" "$0" | sha256sum | cut -c -12)-$python-$platform.tar.gz"
work="$(mktemp -d)"
trap 'rm -r "$work"' EXIT
trap 'exit 130' INT TERM

pack() {
    PATH="$PATH:$cache/uv/bin" # the one of `make prepare`
    mkdir -p "$work/recipes/bin" "${kept%/*}"
    {
        echo torch
        grep -oE '^(triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+)' "$recipes/requirements.lock"
    } >"$work/nodes-have"
    echo "run.sh: packs the packages of the recipes into $kept" >&2
    UV_SYSTEM_CERTS=true uv pip install --quiet --target "$work/recipes/lib/python$python/site-packages" --python-version "$python" \
        --python-platform "$platform" --excludes "$work/nodes-have" --require-hashes -r "$recipes/requirements.lock" >&2
    cat >"$work/recipes/pyvenv.cfg" <<CONFIG
home = /usr/bin
include-system-site-packages = true
CONFIG
    ln -s /usr/bin/python3 "$work/recipes/bin/python"
    for program in torchrun:torch.distributed.run ray:ray.scripts.scripts; do
        # shellcheck disable=SC2016 # the program's own directory, where it runs
        printf '#!/bin/sh\nexec "$(dirname "$0")/python" -m %s "$@"\n' "${program#*:}" \
            >"$work/recipes/bin/${program%%:*}"
        chmod +x "$work/recipes/bin/${program%%:*}"
    done
    rm -f "${kept%/*}"/*-"$python-$platform.tar.gz" # of an earlier lock
    tar --create --directory "$work/recipes" --owner 0 --group 0 . | gzip -1 >"$kept.$$"
    mv "$kept.$$" "$kept"
    rm -r "$work/recipes"
}

[ -e "$kept" ] || pack
cp -r "$recipes" "$work/recipes"
ln "$kept" "$work/recipes/packages.tar.gz" 2>/dev/null || cp "$kept" "$work/recipes/packages.tar.gz"
stampworks submit "$work/recipes/$name/job.yaml" "$@"
