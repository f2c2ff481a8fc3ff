.NOTPARALLEL:
.PHONY: demo test docs lock

# The whole way, offline, one screen a step.
demo:
	@tools/venv.sh demo
	@.venv/bin/hindlake demo

# What a developer runs before each commit. CI runs .ci/run, which adds the slow tests and every check.
test:
	@tools/venv.sh dev
	@.venv/bin/python -m pytest -q -m "not slow" -n auto --maxprocesses 4 --dist worksteal $(PYTEST_ARGS)

# The documentation as pages, into build/docs. Every warning is an error.
docs:
	@tools/venv.sh dev
	@tools/docs.sh

# Resolve the locks anew from pyproject.toml. Versions stay where they can; UPGRADE=--upgrade moves them all.
COMPILE = .venv/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url --all-extras --overrides tools/lock-overrides.txt \
	$(UPGRADE) pyproject.toml

lock:
	@tools/venv.sh dev
	$(COMPILE) --group build -o requirements.lock
	$(COMPILE) --group dev --constraints requirements.lock -o requirements-dev.lock
