#!/bin/sh
# Make .venv ready for `make demo` (tools/venv.sh demo) or for development (tools/venv.sh dev).
#
# .venv/.ready is written last and says what the environment was made from, so an interrupted set-up never counts
# as complete, and a second call costs nothing.
set -eu
cd "$(dirname "$0")/.."

case "${1:-}" in
    demo) lock=requirements.lock ;;
    dev) lock=requirements-dev.lock ;;
    *) echo "usage: tools/venv.sh demo|dev" >&2; exit 2 ;;
esac

ready=.venv/.ready

made_from() { # LEVEL LOCK
    echo "$1 $(cksum < "$2") $(cksum < pyproject.toml) $PWD"
}

can_run() { # PYTHON
    "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' > /dev/null 2>&1 < /dev/null
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        if can_run "$PYTHON"; then echo "$PYTHON"; return; fi
        echo "PYTHON=$PYTHON is not a Python 3.11 or newer that can make environments (venv, ensurepip)" >&2
        return 1
    fi
    for name in python3 python3.13 python3.12 python3.11; do
        # Every place in PATH: the first may be a shim that only says that its version is not chosen.
        old_ifs=$IFS; IFS=:
        for folder in $PATH; do
            IFS=$old_ifs
            if [ -x "${folder:-.}/$name" ] && can_run "${folder:-.}/$name"; then
                echo "${folder:-.}/$name"; return
            fi
        done
        IFS=$old_ifs
    done
    echo "No Python 3.11 or newer with venv and ensurepip was found in PATH." >&2
    echo "Install one (Debian: apt install python3 python3-venv), or name it: make PYTHON=/path/to/python3 ..." >&2
    return 1
}

if [ -f "$ready" ] && .venv/bin/python -c '' 2> /dev/null; then
    if grep -qxF "$(made_from "$1" "$lock")" "$ready"; then exit 0; fi
    if grep -qF " $PWD" "$ready"; then reuse=yes; fi
fi

if [ "${reuse:-no}" = yes ]; then
    rm -f "$ready"
    echo "Bringing .venv up to date with $lock ..." >&2
else
    python=$(find_python)
    echo "Making .venv with $("$python" -V) from $lock; this is done once and takes a minute or two ..." >&2
    rm -rf .venv
    "$python" -m venv .venv
fi

pip() {
    .venv/bin/python -m pip --disable-pip-version-check --no-input "$@" < /dev/null
}

# The lock is complete, so there is nothing to resolve; what is imported is compiled then.
pip install -qq --no-compile --no-deps --require-hashes -r "$lock"
pip install -qq --no-deps --no-build-isolation -e .

made_from demo requirements.lock > "$ready.new"
if [ "$1" = dev ]; then made_from dev requirements-dev.lock >> "$ready.new"; fi
mv "$ready.new" "$ready"
