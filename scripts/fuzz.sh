#!/usr/bin/env bash
# Runs every fuzz target of the module for a while, one after the other: scripts/fuzz.sh [TIME-PER-TARGET]
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-5s}

found=0
while IFS=: read -r file target; do
	found=$((found + 1))
	go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$time" </dev/null
done < <(grep -rHoE --include='*_test.go' --exclude-dir=build '^func Fuzz[A-Za-z0-9_]+' . | sed 's/:func /:/; s|^\./||' | sort)

if [[ $found == 0 ]]; then
	echo 'no fuzz target found' >&2
	exit 1
fi
