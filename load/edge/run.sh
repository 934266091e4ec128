#!/usr/bin/env bash
# What TLS and HTTP/2 cost: CPU time per request and requests a second of the gateway beside nginx
# and HAProxy, taking turns in each round, the proxy alone on core 0; and what an idle connection
# costs in memory, beside nginx. Writes results.md and its pictures here.
#
#   load/edge/run.sh [--quick] [--rounds N] [--seconds N] [--connections N]
#
# 5 rounds of 3 s and 10,000 idle connections, 6 minutes after the build. --quick is one round of 1 s
# and 500 connections, and writes into target/load/edge. PROFILE is cargo's (release); with BIN, a
# folder that has what `cargo build --bin aforo --examples` makes, nothing is built.
#
# Needs wrk, h2load (nghttp2-client), nginx, haproxy, openssl and two cores. Loopback only.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."

rounds=5 seconds=3 idle=10000 out=load/edge
while [ $# -gt 0 ]; do
  case $1 in
  --quick) rounds=1 seconds=1 idle=500 out=target/load/edge ;;
  --rounds) rounds=$2; shift ;;
  --seconds) seconds=$2; shift ;;
  --connections) idle=$2; shift ;;
  *) echo "usage: load/edge/run.sh [--quick] [--rounds N] [--seconds N] [--connections N]" >&2; exit 2 ;;
  esac
  shift
done
connections=64
streams=10
profile=${PROFILE:-release}
proxies=(aforo nginx haproxy)

ulimit -n $((idle + 3000))
for tool in wrk h2load nginx haproxy openssl taskset; do
  command -v "$tool" >/dev/null || { echo "$tool is not installed" >&2; exit 1; }
done
bin=${BIN:-}
if [ -z "$bin" ]; then
  cargo build --locked --profile "$profile" --bin aforo \
    --example origin --example idle --example edge-connect --example edge-pictures
  # Cargo has another name for the folder of this one.
  bin=${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}
fi
bin=$(realpath "$bin")
work=$(mktemp -d)
declare -A pid plain tls
pids=()
stop() {
  kill -9 "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap stop EXIT
fail() {
  echo "$1" >&2
  tail -n 20 "$work/log" >&2
  exit 1
}

taken=" "
free_port() { # sets $port; never the same one twice
  for _ in $(seq 1000); do
    port=$((12000 + RANDOM % 12000))
    if [[ $taken != *" $port "* ]] && ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      taken+="$port "
      return
    fi
  done
  fail "no free port"
}
await() { # PORT
  for _ in $(seq 200); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
    sleep 0.05
  done
  fail "nothing listens on $1"
}
start() { # CORE COMMAND...: runs it in the background, its process id in $!
  local core=$1
  shift
  taskset -c "$core" "$@" 2>>"$work/log" >>"$work/log" &
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

free_port; origin=$port
start 1 "$bin/examples/origin" "127.0.0.1:$origin"
await "$origin"

for proxy in "${proxies[@]}"; do
  free_port; plain[$proxy]=$port
  free_port; tls[$proxy]=$port
done
free_port; admin=$port

cat >"$work/aforo.yaml" <<YAML
version: 1
server: { threads: 1 }
listeners:
  - { address: "127.0.0.1:${plain[aforo]}" }
  - { address: "127.0.0.1:${tls[aforo]}", tls: { cert: "$work/cert.pem", key: "$work/key.pem" } }
admin: { address: "127.0.0.1:$admin" }
timeouts: { idle: 10m }
upstreams: { origin: { servers: ["127.0.0.1:$origin"] } }
routes: [{ id: all, path: /*, upstream: origin }]
limits: { default_rule: { capacity: 2000000000, refill_per_second: 1000000 } }
YAML

cat >"$work/nginx.conf" <<NGINX
daemon off;
master_process off;
worker_processes 1;
pid $work/nginx.pid;
error_log $work/nginx.log;
events { worker_connections $((idle + 1500)); }
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

cat >"$work/haproxy.cfg" <<HAPROXY
global
  nbthread 1
  maxconn 1000
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

start_proxy() { # PROXY: on core 0, its process id in pid[PROXY]
  case $1 in
  aforo) start 0 "$bin/aforo" run -c "$work/aforo.yaml" ;;
  nginx) start 0 nginx -c "$work/nginx.conf" ;;
  haproxy) start 0 haproxy -db -f "$work/haproxy.cfg" ;;
  esac
  pid[$1]=$!
  await "${plain[$1]}"
  await "${tls[$1]}"
}
stop_proxy() { # PROXY
  kill -9 "${pid[$1]}"
  wait "${pid[$1]}" 2>/dev/null || true
}

load() { # KIND PROXY SECONDS: prints the number of requests that were answered with 2xx
  local address=localhost:${tls[$2]} seen=$work/load
  local key=(-H 'X-Api-Key: shop-a')
  case $1 in
  http1) taskset -c 1 wrk -t1 -c"$connections" -d"${3}s" "${key[@]}" "http://localhost:${plain[$2]}/x" ;;
  tls1) taskset -c 1 wrk -t1 -c"$connections" -d"${3}s" "${key[@]}" "https://$address/x" ;;
  full) taskset -c 1 "$bin/examples/edge-connect" "127.0.0.1:${tls[$2]}" "$3" "$work/cert.pem" ;;
  resumed) taskset -c 1 wrk -t1 -c"$connections" -d"${3}s" "${key[@]}" -H 'Connection: close' "https://$address/x" ;;
  tls2) taskset -c 1 h2load -t1 -c"$connections" -m"$streams" -D"$3" "${key[@]}" "https://$address/x" ;;
  esac >"$seen"
  if [ "$1" = full ]; then
    cat "$seen"
  elif [ "$1" = tls2 ]; then
    grep -q ' 0 3xx, 0 4xx, 0 5xx' "$seen" && grep -q 'Application protocol: h2' "$seen" || fail "$2, $1: $(cat "$seen")"
    awk '/^status codes/ { print $3 }' "$seen"
  else
    if grep -q 'Non-2xx' "$seen"; then fail "$2, $1: $(cat "$seen")"; fi
    awk '/ requests in / { print $1 }' "$seen"
  fi
}

hertz=$(getconf CLK_TCK)
kinds=(http1 tls1 tls2 full resumed)
begun=$SECONDS
revision=$(git describe --always --dirty --exclude '*' 2>/dev/null || echo 'unknown')
for proxy in "${proxies[@]}"; do start_proxy "$proxy"; done
for round in $(seq "$rounds"); do
  for kind in "${kinds[@]}"; do
    for proxy in "${proxies[@]}"; do
      load "$kind" "$proxy" 1 >/dev/null
      before=$(ticks "${pid[$proxy]}")
      requests=$(load "$kind" "$proxy" "$seconds")
      after=$(ticks "${pid[$proxy]}")
      [ "$requests" -gt 0 ] || fail "$proxy, $kind: nothing was answered"
      awk -v kind="$kind" -v proxy="$proxy" -v n="$requests" -v s="$seconds" \
        -v cpu=$((after - before)) -v hertz="$hertz" \
        'BEGIN { printf "%s %s %.2f %.0f %.0f\n", kind, proxy, cpu / hertz * 1e6 / n, n / s, 100 * cpu / hertz / s }' |
        tee -a "$work/measured" | sed "s/^/round $round: /" >&2
    done
  done
done
for proxy in "${proxies[@]}"; do stop_proxy "$proxy"; done

for kind in plain tls; do
  for proxy in aforo nginx; do
    # Anew each time: what the process had freed before would hold the connections.
    start_proxy "$proxy"
    port=${plain[$proxy]} certificate=()
    if [ "$kind" = tls ]; then port=${tls[$proxy]} certificate=("$work/cert.pem"); fi
    each=$(taskset -c 1 "$bin/examples/idle" "127.0.0.1:$port" "${pid[$proxy]}" "$idle" "${certificate[@]}")
    echo "$kind $proxy $each" | tee -a "$work/idle" >&2
    stop_proxy "$proxy"
  done
done

spread() { # KIND PROXY COLUMN: median (lowest–highest)
  awk -v kind="$1" -v proxy="$2" -v column="$3" '$1 == kind && $2 == proxy { print $column }' "$work/measured" |
    sort -n | awk '{ value[NR] = $1 } END { printf "%s (%s–%s)", value[int((NR + 1) / 2)], value[1], value[NR] }'
}
median() { spread "$@" | cut -d' ' -f1; }
declare -A name=([http1]="HTTP/1.1" [tls1]="HTTP/1.1 over TLS" [tls2]="HTTP/2 over TLS"
  [full]="TLS, a handshake each" [resumed]="TLS, a resumed one each")
mkdir -p "$out"
{
  echo "# Results"
  echo
  echo "One run on $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1). $("$bin/aforo" --version) ($revision)," \
    "$(nginx -v 2>&1 | sed 's/.*: //'), $(haproxy -v | awk 'NR == 1 { print $1, $3 }'); profile ${profile}. $rounds rounds of $seconds s; it took" \
    "$(((SECONDS - begun + 59) / 60)) minutes. Written by \`load/edge/run.sh\`; [README.md](README.md) says what is measured."
  echo
  echo "## What a request costs"
  echo
  echo "Medians of the rounds; in parentheses the lowest and the highest."
  echo
  echo "| spoken | proxy | CPU per request, µs | beside nginx | requests/s | core busy, % |"
  echo "|---|---|--:|--:|--:|--:|"
  for kind in "${kinds[@]}"; do
    for proxy in "${proxies[@]}"; do
      ratio=$(awk -v a="$(median "$kind" "$proxy" 3)" -v b="$(median "$kind" nginx 3)" 'BEGIN { printf "%.2f ×", a / b }')
      echo "| ${name[$kind]} | $proxy | $(spread "$kind" "$proxy" 3) | $ratio | $(spread "$kind" "$proxy" 4) | $(median "$kind" "$proxy" 5) |"
    done
  done
  echo
  echo "![CPU time per request](cpu.svg)"
  echo
  echo "![Requests a second](throughput.svg)"
  echo
  echo "## What an idle connection costs"
  echo
  echo "$idle connections after one answer each."
  echo
  echo "| connections | proxy | resident memory for each, KiB |"
  echo "|---|---|--:|"
  while read -r kind proxy each; do
    echo "| ${kind/tls/TLS} | $proxy | $each |"
  done <"$work/idle"
} >"$out/results.md"
for kind in "${kinds[@]}"; do
  for proxy in "${proxies[@]}"; do
    echo "$proxy,$(median "$kind" "$proxy" 3),$(median "$kind" "$proxy" 4),${name[$kind]}"
  done
done | "$bin/examples/edge-pictures" "$out"
cat "$out/results.md"
