#!/usr/bin/env bash
# Check LASER on a machine with a GPU and without internet, from a bundle that `make gpu-bundle` collected elsewhere.
#
#   [PYTHON=python3] [LASER_ENV=DIRECTORY] bash benchmarks/gpu_check.sh BUNDLE [options of laser bench gpu]
#
# PYTHON has torch; the environment is made on top of it and kept in LASER_ENV for the next time. docs/gpu.md says more.
set -euo pipefail
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ $# -lt 1 ]; then
    sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
fi
bundle=$1
shift
python=${PYTHON:-python3}
environment=${LASER_ENV:-${TMPDIR:-/tmp}/laser-$(id -u)-$(cksum <<<"$checkout" | cut -d' ' -f1)}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "error: PYTHON: $python does not run, or is older than Python 3.11; name one that has torch: PYTHON=/path/to/python3" >&2
    exit 1
fi
"$python" "$checkout/launch/offline/install.py" "$bundle" "$environment"
# Some images have torch without bytecode and forbid to write it. Each process would then parse torch for 5 to 15 s.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$environment/bytecode"
"$environment/bin/python" -m compileall -q -j 0 "$checkout"/{laser,actors,learner,replay_server,launch} \
    "$("$environment/bin/python" -c 'import importlib.util; print(importlib.util.find_spec("torch").submodule_search_locations[0])')"
"$environment/bin/laser" doctor
exec "$environment/bin/laser" bench gpu "$@"
