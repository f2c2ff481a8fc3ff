#!/bin/sh
# Build the documentation into build/docs. Every warning is an error, and so is a page that would fetch something.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}

rm -rf build/docs
"$python" -m sphinx -q -E -W --keep-going -n -b html -d build/doctrees docs build/docs < /dev/null
"$python" tools/docs_check.py build/docs
