#!/usr/bin/env bash
# What TLS and HTTP/2 cost: CPU time per request and requests a second of the gateway beside nginx
# and HAProxy, one after the other in each round, the proxy alone on core 0; and what an idle
# connection costs in memory, beside nginx.
#
#   load/edge/run.sh [ROUNDS] [SECONDS] [CONNECTIONS]   default 5 rounds of 5 s, 10000 idle connections
#
# Needs wrk, h2load (nghttp2-client), nginx, haproxy, openssl and two cores. Loopback only.
set -euo pipefail
cd "$(dirname "$0")/../.."

rounds=${1:-5}
seconds=${2:-5}
idle=${3:-10000}
connections=64
streams=10
profile=${PROFILE:-release}

ulimit -n $((idle + 2000))
cargo build --locked --profile "$profile" --bin aforo --example origin --example idle
# Cargo has another name for the folder of this one.
bin=$PWD/target/${profile/#dev/debug}
work=$(mktemp -d)
pids=()
stop() {
  kill -9 "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap stop EXIT

free_port() {
  local port
  for _ in $(seq 100); do
    port=$((12000 + RANDOM % 12000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then echo "$port"; return; fi
  done
  exit 1
}
await() { # PORT
  for _ in $(seq 200); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
    sleep 0.05
  done
  echo "nothing listens on $1" >&2
  cat "$work/log" >&2
  exit 1
}
start() { # CORE COMMAND...: runs it in the background, its process id in $!
  local core=$1
  shift
  taskset -c "$core" "$@" 2>>"$work/log" >>"$work/out" &
  pids+=($!)
}
ticks() { # PID: CPU time of a process, all threads, in clock ticks
  awk '{ sub(/^.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"
}

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
  -addext 'subjectAltName=DNS:localhost' -addext 'basicConstraints=critical,CA:FALSE' \
  -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
cat "$work/cert.pem" "$work/key.pem" >"$work/both.pem"
chmod -R a+rX "$work"

origin=$(free_port)
start 1 "$bin/examples/origin" "127.0.0.1:$origin"
await "$origin"

declare -A plain tls pid
for subject in aforo nginx haproxy; do
  plain[$subject]=$(free_port)
  tls[$subject]=$(free_port)
done

cat >"$work/aforo.yaml" <<YAML
version: 1
server: { threads: 1 }
listeners:
  - { address: "127.0.0.1:${plain[aforo]}" }
  - { address: "127.0.0.1:${tls[aforo]}", tls: { cert: "$work/cert.pem", key: "$work/key.pem" } }
admin: { address: "127.0.0.1:$(free_port)" }
timeouts: { idle: 10m }
upstreams: { origin: { servers: ["127.0.0.1:$origin"] } }
routes: [{ id: all, path: /*, upstream: origin }]
limits: { default_rule: { capacity: 2000000000, refill_per_second: 1000000 } }
YAML
start 0 "$bin/aforo" run -c "$work/aforo.yaml"
pid[aforo]=$!

cat >"$work/nginx.conf" <<NGINX
daemon off;
master_process off;
worker_processes 1;
pid $work/nginx.pid;
error_log $work/nginx.log;
events { worker_connections $((idle * 2 + 1000)); }
http {
  access_log off;
  keepalive_timeout 600s;
  keepalive_requests 1000000000;
  client_body_temp_path $work/nginx-body;
  proxy_temp_path $work/nginx-proxy;
  fastcgi_temp_path $work/nginx-fastcgi;
  uwsgi_temp_path $work/nginx-uwsgi;
  scgi_temp_path $work/nginx-scgi;
  upstream origin { server 127.0.0.1:$origin; keepalive 512; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${plain[nginx]};
    listen 127.0.0.1:${tls[nginx]} ssl http2;
    ssl_certificate $work/cert.pem;
    ssl_certificate_key $work/key.pem;
    ssl_protocols TLSv1.2 TLSv1.3;
    location / { proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
NGINX
start 0 nginx -c "$work/nginx.conf"
pid[nginx]=$!

cat >"$work/haproxy.cfg" <<HAPROXY
global
  nbthread 1
  maxconn 4000
defaults
  mode http
  timeout connect 2s
  timeout client 600s
  timeout server 30s
frontend edge
  bind 127.0.0.1:${plain[haproxy]}
  bind 127.0.0.1:${tls[haproxy]} ssl crt $work/both.pem alpn h2,http/1.1
  default_backend origin
backend origin
  http-reuse always
  server origin 127.0.0.1:$origin
HAPROXY
start 0 haproxy -db -f "$work/haproxy.cfg"
pid[haproxy]=$!
for subject in aforo nginx haproxy; do
  await "${plain[$subject]}"
  await "${tls[$subject]}"
done

load() { # KIND SUBJECT SECONDS: prints the number of requests that were answered with 2xx
  local port=${tls[$2]} scheme=https
  if [ "$1" = http1 ]; then port=${plain[$2]} scheme=http; fi
  local url="$scheme://localhost:$port/x"
  case $1 in
  http1 | tls1)
    taskset -c 1 wrk -t1 -c"$connections" -d"${3}s" -H 'X-Api-Key: shop-a' "$url" >"$work/load"
    if grep -q 'Non-2xx' "$work/load"; then cat "$work/load" >&2; exit 1; fi
    awk '/ requests in / { print $1 }' "$work/load"
    ;;
  tls2)
    taskset -c 1 h2load -t1 -c"$connections" -m"$streams" -D"$3" -H 'X-Api-Key: shop-a' "$url" >"$work/load"
    if ! grep -q ' 0 3xx, 0 4xx, 0 5xx' "$work/load"; then cat "$work/load" >&2; exit 1; fi
    awk '/^status codes/ { print $3 }' "$work/load"
    ;;
  handshake) # a new connection for each request
    taskset -c 1 wrk -t1 -c"$connections" -d"${3}s" -H 'X-Api-Key: shop-a' -H 'Connection: close' "$url" >"$work/load"
    awk '/ requests in / { print $1 }' "$work/load"
    ;;
  esac
}

hertz=$(getconf CLK_TCK)
kinds=(http1 tls1 tls2 handshake)
for round in $(seq "$rounds"); do
  for kind in "${kinds[@]}"; do
    for subject in aforo nginx haproxy; do
      load "$kind" "$subject" 1 >/dev/null
      before=$(ticks "${pid[$subject]}")
      requests=$(load "$kind" "$subject" "$seconds")
      after=$(ticks "${pid[$subject]}")
      awk -v kind="$kind" -v subject="$subject" -v n="$requests" -v s="$seconds" \
        -v cpu=$((after - before)) -v hertz="$hertz" \
        'BEGIN { printf "%s %s %.2f %.0f\n", kind, subject, cpu / hertz * 1e6 / n, n / s }' |
        tee -a "$work/results" | sed "s/^/round $round: /" >&2
    done
  done
done

median() { # KIND SUBJECT COLUMN
  awk -v kind="$1" -v subject="$2" -v column="$3" '$1 == kind && $2 == subject { print $column }' "$work/results" |
    sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}
declare -A name=([http1]="HTTP/1.1" [tls1]="HTTP/1.1 over TLS" [tls2]="HTTP/2 over TLS" [handshake]="a TLS connection each")
echo "| spoken | proxy | CPU per request, µs | requests/s |"
echo "|---|---|---|---|"
for kind in "${kinds[@]}"; do
  for subject in aforo nginx haproxy; do
    echo "| ${name[$kind]} | $subject | $(median "$kind" "$subject" 3) | $(median "$kind" "$subject" 4) |"
  done
done
echo
echo "| idle connections | proxy | resident memory for each, KiB |"
echo "|---|---|---|"
for kind in plain tls; do
  for subject in aforo nginx; do
    if [ "$kind" = tls ]; then port=${tls[$subject]} ca=$work/cert.pem; else port=${plain[$subject]} ca=; fi
    each=$(taskset -c 1 "$bin/examples/idle" "127.0.0.1:$port" "${pid[$subject]}" "$idle" $ca)
    echo "| $idle, $kind | $subject | $each |"
  done
done
