# Sourced by the scripts that build native modules: what is built for one Python, and where. Expects $python, a program. Goes to the
# root of the checkout, and sets $out, the directory of that Python's build products, $suffix, the end of its modules' names, $profile and
# $built, cargo's profile (PROFILE) and the directory of what it makes, and what cargo has to know; NIF_TARGET is another directory to
# build in.
python=$(command -v "$python")
case $python in /*) ;; *) python=$PWD/$python ;; esac
cd "$(dirname "$0")/.."
facts=$("$python" tools/interpreter.py)
out=$(echo "$facts" | sed -n 1p)
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
profile=${PROFILE:-release}
case $profile in dev) built=debug ;; *) built=$profile ;; esac
# By the interpreter's own name, whichever environment calls: by another cargo would build all of it anew.
PYO3_PYTHON=$(echo "$facts" | sed -n 3p)
export PYO3_PYTHON PYO3_BUILD_EXTENSION_MODULE=1 CARGO_TARGET_DIR="${NIF_TARGET:-$PWD/$out/ext}"
