#!/usr/bin/env bash
# Prints the Go files of this repository, without what lies under build/ and without generated copies of other projects.
set -euo pipefail
cd "$(dirname "$0")/.."
find . -name '*.go' -not -path './build/*' -not -path '*/node_modules/*' -not -path './.git/*' | sort
