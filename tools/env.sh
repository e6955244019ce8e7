# shellcheck shell=sh
# Source this:  . tools/env.sh   (bash, dash or zsh; dash: from the top of the clone)
# It puts the project's programs first on PATH and tells Pulumi where state lives. What is already set is kept.

if [ -n "${BASH_SOURCE:-}" ]; then # the path of a file being sourced, which every shell tells in its own way
    STAMPWORKS_ROOT=$(cd "$(dirname "$BASH_SOURCE")/.." && pwd)
elif [ -n "${ZSH_VERSION:-}" ]; then
    eval 'STAMPWORKS_ROOT=${${(%):-%x}:A:h:h}'
else
    STAMPWORKS_ROOT=$PWD
fi

if [ ! -f "$STAMPWORKS_ROOT/tools/env.sh" ]; then
    echo "tools/env.sh: this shell does not say where the file is: source it from the top of the clone" >&2
    unset STAMPWORKS_ROOT
    return 1
fi
export STAMPWORKS_ROOT

# .venv/engine leads to the engine that tools/prepare built; where your own pulumi is used it does not exist.
for _stampworks_folder in "$STAMPWORKS_ROOT/.venv/engine" "$STAMPWORKS_ROOT/.venv/bin"; do
    case ":$PATH:" in
    *":$_stampworks_folder:"*) ;;
    *) PATH=$_stampworks_folder:$PATH ;;
    esac
done
export PATH

# As components/stampworks/state/paths.py has it.
case "${XDG_STATE_HOME:-}" in
/*) _stampworks_state=${STAMPWORKS_STATE:-$XDG_STATE_HOME/stampworks} ;;
*) _stampworks_state=${STAMPWORKS_STATE:-$HOME/.local/state/stampworks} ;;
esac
_stampworks_state=$(umask 077 && mkdir -p "$_stampworks_state/pulumi" && cd "$_stampworks_state" && pwd)

export PULUMI_HOME="${PULUMI_HOME:-$_stampworks_state/pulumi/home}"
export PULUMI_BACKEND_URL="${PULUMI_BACKEND_URL:-file://$_stampworks_state/pulumi}"
export PULUMI_SKIP_UPDATE_CHECK="${PULUMI_SKIP_UPDATE_CHECK:-true}"
# Plugins of clouds are installed on purpose ('pulumi plugin install'), not as a side effect of a preview.
export PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION="${PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION:-true}"

# The passphrase of the stacks 'local' is public by design: on a demo's machine state and passphrase lie side by side
# anyway, and the matching salt in stacks/Pulumi.local.yaml is tracked, so that a demo leaves the clone clean.
# A stack that matters has a passphrase of its own, or a key service.
if [ -z "${PULUMI_CONFIG_PASSPHRASE:-}${PULUMI_CONFIG_PASSPHRASE_FILE:-}" ]; then
    export PULUMI_CONFIG_PASSPHRASE=stampworks-local
fi

unset _stampworks_folder _stampworks_state
