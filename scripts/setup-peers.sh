#!/usr/bin/env bash
# Installs what the tests need beside Go's own modules: the real peers that Penstock is run between, and the official
# conformance suite. Everything lands under build/, which git ignores. Safe to repeat: each part carries a stamp of what
# it was made from and is skipped, in a few milliseconds, while that has not changed.
#
#   scripts/setup-peers.sh        everything
#   scripts/setup-peers.sh go     only the peers that need no other language
set -euo pipefail
cd "$(dirname "$0")/.."
only=${1:-all}

mkdir -p build/peers build/stamps
exec 9>build/stamps/lock
flock 9 # two runs at once would write into each other's folders

log() { printf 'setup-peers: %s\n' "$*" >&2; }

# stale NAME FILE...: true when the part NAME has to be made (again). Sets $digest, which done_with writes.
stale() {
	local name=$1
	shift
	digest=$(cat "$@" scripts/setup-peers.sh | sha256sum | cut -d' ' -f1)
	[[ ! -f build/stamps/$name || $(<"build/stamps/$name") != "$digest" ]]
}
done_with() { printf '%s\n' "$digest" >"build/stamps/$1"; }

# quietly COMMAND...: its output is of interest only when it fails.
quietly() {
	if ! "$@" >build/stamps/last.log 2>&1; then
		cat build/stamps/last.log >&2
		log "failed: $*"
		return 1
	fi
}

if stale golang test/peers/golang/go.mod test/peers/golang/go.sum test/peers/golang/*/*.go ||
	[[ ! -x build/peers/go-everything || ! -x build/peers/mcp-go || ! -x build/peers/go-client || ! -x build/peers/go-witness ||
	! -x build/peers/go-idp ]]; then
	log 'Go peers: everything-server, mcp-go, client, witness, idp'
	out=$PWD/build/peers
	quietly go -C test/peers/golang build -o "$out/go-everything" github.com/modelcontextprotocol/go-sdk/conformance/everything-server
	quietly go -C test/peers/golang build -o "$out/mcp-go" github.com/mark3labs/mcp-go/examples/conformance
	quietly go -C test/peers/golang build -o "$out/go-client" ./client
	quietly go -C test/peers/golang build -o "$out/go-witness" ./witness
	quietly go -C test/peers/golang build -o "$out/go-idp" ./idp
	done_with golang
fi

if [[ $only == all ]]; then
	if stale js test/peers/js/package.json test/peers/js/package-lock.json test/peers/js/.npmrc ||
		[[ ! -d build/js/node_modules ]]; then
		log 'JavaScript peers and the conformance suite'
		mkdir -p build/js
		cp test/peers/js/package.json test/peers/js/package-lock.json test/peers/js/.npmrc build/js/
		quietly npm ci --prefix build/js --no-progress --loglevel=error
		done_with js
	fi
	if stale python test/peers/python/requirements.txt || [[ ! -x build/venv/bin/python ]]; then
		log 'Python peers'
		rm -rf build/venv
		quietly python3 -m venv build/venv
		quietly build/venv/bin/python -m pip install --disable-pip-version-check --no-deps --only-binary :all: \
			-r test/peers/python/requirements.txt
		done_with python
	fi
fi

# A module finds its dependencies by where it lies, so the programs are put beside them.
if [[ -d build/js/node_modules ]]; then
	cp test/peers/js/*.mjs build/js/
fi
