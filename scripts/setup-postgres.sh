#!/usr/bin/env bash
# Installs PostgreSQL for the tests of the store, where it is missing: Debian, as root. No server is left running: each
# test process starts one of its own in a temporary folder (internal/store/pgtest).
set -euo pipefail

if command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
	exit 0
fi
if ! command -v apt-get >/dev/null || [[ $EUID -ne 0 ]]; then
	echo "setup-postgres: no PostgreSQL found, and installing it needs Debian and root" >&2
	exit 1
fi

# The package must not start a server of its own: a policy that forbids it, and no cluster.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	trap 'rm -f "$policy"' EXIT
fi
mkdir -p /etc/postgresql-common/createcluster.d
echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/penstock.conf
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null
