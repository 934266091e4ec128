#!/usr/bin/env bash
# What limiting costs a proxy: CPU time per request and requests a second of the gateway, beside a
# bare Pingora pass-through, one after the other in each round, the proxy alone on core 0.
#
#   load/proxy-cost/run.sh [ROUNDS] [SECONDS]        default 5 rounds of 5 s for each subject
#
# Needs wrk and redis-server (Debian packages of these names) and two cores. Loopback only.
set -euo pipefail
cd "$(dirname "$0")/../.."

rounds=${1:-5}
seconds=${2:-5}
connections=64
profile=${PROFILE:-release}

cargo build --locked --profile "$profile" --bin aforo --example passthrough --example origin
bin=target/$profile
work=$(mktemp -d)
pids=()
stop() {
  kill -9 "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap stop EXIT

free_port() { # asks the kernel for one, through a server that ends at once
  local port
  for _ in $(seq 100); do
    port=$((20000 + RANDOM % 12000))
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

origin=$(free_port)
start 1 "$bin/examples/origin" "127.0.0.1:$origin"
await "$origin"
redis=$(free_port)
start 1 redis-server --port "$redis" --bind 127.0.0.1 --save '' --appendonly no
await "$redis"

gateway() { # NAME MODE ACCESS STORE
  local listen admin
  listen=$(free_port)
  admin=$(free_port)
  cat >"$work/$1.yaml" <<YAML
version: 1
server: { threads: 1 }
listeners: [{ address: "127.0.0.1:$listen" }]
admin: { address: "127.0.0.1:$admin" }
log: { level: info, access: $3 }
upstreams: { origin: { servers: ["127.0.0.1:$origin"] } }
routes: [{ id: all, path: /*, upstream: origin }]
limits:
  default_rule: { capacity: 2000000000, refill_per_second: 1000000 }
  mode: $2
$4
YAML
  start 0 "$bin/aforo" run -c "$work/$1.yaml"
  await "$listen"
  port[$1]=$listen
  admin_port[$1]=$admin
  pid[$1]=$!
}
in_redis="store: { redis: { url: \"redis://127.0.0.1:$redis\" } }
cluster: { instances: 1 }"

declare -A port admin_port pid
listen=$(free_port)
start 0 "$bin/examples/passthrough" "127.0.0.1:$listen" "127.0.0.1:$origin"
await "$listen"
port[bare]=$listen
pid[bare]=$!
gateway off off false ''
gateway memory enforce false ''
gateway redis enforce false "$in_redis"
gateway redis-log enforce true "$in_redis"
subjects=(bare off memory redis redis-log)

hertz=$(getconf CLK_TCK)
for round in $(seq "$rounds"); do
  for subject in "${subjects[@]}"; do
    url="http://127.0.0.1:${port[$subject]}/x"
    taskset -c 1 wrk -t1 -c"$connections" -d1s -H 'X-Api-Key: shop-a' "$url" >/dev/null
    before=$(ticks "${pid[$subject]}")
    taskset -c 1 wrk -t1 -c"$connections" -d"${seconds}s" --latency -H 'X-Api-Key: shop-a' "$url" >"$work/wrk"
    after=$(ticks "${pid[$subject]}")
    if grep -q 'Non-2xx' "$work/wrk"; then
      cat "$work/wrk" >&2
      exit 1
    fi
    awk -v ticks=$((after - before)) -v hertz="$hertz" -v subject="$subject" '
      / requests in / { requests = $1 }
      /^Requests\/sec/ { rate = $2 }
      END { printf "%s %.2f %.0f\n", subject, ticks / hertz * 1e6 / requests, rate }
    ' "$work/wrk" | tee -a "$work/results" | sed "s/^/round $round: /" >&2
  done
done

for subject in redis redis-log; do
  exec 3<>"/dev/tcp/127.0.0.1/${admin_port[$subject]}"
  printf 'GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3
  cat <&3 >"$work/metrics"
  exec 3>&-
  awk -v subject="$subject" '
    /^aforo_decisions_total/ { split($1, part, "\""); n[part[2]] = $2 }
    END { printf "%s: %d decisions by Redis, %d by the fallback\n", subject, n["store"], n["fallback"] }
  ' "$work/metrics" >&2
done

median() { # SUBJECT COLUMN
  awk -v subject="$1" -v column="$2" '$1 == subject { print $column }' "$work/results" |
    sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}
base=$(median bare 2)
echo "| subject | CPU per request, µs | against bare | requests/s |"
echo "|---|---|---|---|"
for subject in "${subjects[@]}"; do
  cpu=$(median "$subject" 2)
  ratio=$(awk -v a="$cpu" -v b="$base" 'BEGIN { printf "%.2f", a / b }')
  echo "| $subject | $cpu | $ratio × | $(median "$subject" 3) |"
done
