#!/usr/bin/env bash
# What a request is made of: instructions of the proxy in user mode (valgrind counts them, so that a noisy
# machine changes nothing) and system calls (strace), of the gateway beside the bare pass-through. Writes
# profile.md beside this, and what each function took into target/load/profile.
#
#   load/hot-key/profile.sh [FOLDER OF THE PROGRAMS, by default target/release, built first]
#
# It needs valgrind, strace, h2load (nghttp2-client) and redis-server.
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=${1:-target/release}
[ $# -gt 0 ] || cargo build --release --locked --bin aforo --example passthrough --example origin
out=target/load/profile
rm -rf "$out" && mkdir -p "$out"
requests=4000
children=()
trap 'kill "${children[@]}" 2>/dev/null || true; wait' EXIT

port() { # a free one, below those that the system gives to connections
    local port
    while port=$((10000 + RANDOM % 20000)); (echo >"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
    echo "$port"
}
until_up() { # PORT: something listens there
    for _ in $(seq 600); do
        (echo >"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.1
    done
    echo "nothing listens on port $1" >&2
    exit 1
}
load() { # PORT REQUESTS KEY: on four connections that are kept
    h2load --h1 -n "$2" -c 4 -t 1 -H "X-Api-Key: $3" "http://127.0.0.1:$1/x" >"$out/load.txt"
    grep -q ", $2 done" "$out/load.txt" || { cat "$out/load.txt" >&2; exit 1; }
}

origin=$(port)
"$programs/examples/origin" "127.0.0.1:$origin" >/dev/null 2>&1 &
children+=($!)
redis=$(port)
redis-server --port "$redis" --bind 127.0.0.1 --save "" --appendonly no >/dev/null &
children+=($!)
until_up "$origin"
until_up "$redis"

functions() { # INCLUSIVE: what each function took, with what it called or without; in $name
    callgrind_annotate --auto=no --threshold=100 --inclusive="$1" "$out/$name.callgrind" 2>/dev/null | awk -v n=$requests '
        /^ *[0-9,]+ .*:/ {
            count = $1; gsub(",", "", count)
            sub(/^ *[0-9,]+ *(\([^)]*\))? */, ""); sub(/^[^ :]*:/, ""); sub(/ \[[^]]*\]$/, "")
            if (count / n >= 5) printf "%8d %s\n", count / n, $0
        }'
}
own() { # NAME FUNCTION: what one of ours took with all that it called
    awk -v of="$2" 'index($0, of) && $1 > most { most = $1 } END { print most + 0 }' "$out/$1.inclusive"
}
beyond_bare() { # NAME PATTERN: what functions of such names took beyond what they take in the bare pass-through
    awk -v of="$2" '$0 ~ of { sum += FILENAME ~ /bare/ ? -$1 : $1 } END { print sum + 0 }' "$out/$1.functions" "$out/bare.functions"
}
rows=()
measure() { # NAME KEY TITLE COMMAND...: one subject, which listens on $listen
    local name=$1 key=$2 title=$3 pid tracer instructions calls
    shift 3
    valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file="$out/$name.callgrind" \
        "$@" >"$out/$name.log" 2>&1 &
    pid=$!
    children+=("$pid")
    until_up "$listen"
    load "$listen" 1000 "$key"
    callgrind_control -i on "$pid" >/dev/null
    load "$listen" $requests "$key"
    callgrind_control -i off "$pid" >/dev/null
    kill -s "$stop" "$pid"
    wait "$pid" || true
    instructions=$(awk -v n=$requests '/^(summary|totals):/ { total = $2 } END { printf "%d", total / n }' "$out/$name.callgrind")
    functions no >"$out/$name.functions"
    functions yes >"$out/$name.inclusive"

    "$@" >>"$out/$name.log" 2>&1 &
    pid=$!
    children+=("$pid")
    until_up "$listen"
    load "$listen" 1000 "$key"
    strace -c -f -qq -o "$out/$name.strace" -p "$pid" &
    tracer=$!
    sleep 1
    load "$listen" $requests "$key"
    kill -INT "$tracer"
    wait "$tracer" || true
    kill -s "$stop" "$pid"
    wait "$pid" || true
    # Those that at least every twentieth request makes; sleeping is other threads'.
    calls=$(awk -v n=$requests '$1 ~ /^[0-9.]+$/ && $4 >= n / 20 && $NF !~ /total|nanosleep/ {
        printf "%s%s %.2f", (some++ ? ", " : ""), $NF, $4 / n }' "$out/$name.strace")
    rows+=("| $title | $instructions | $calls |")
    echo "${rows[-1]}"
}
gateway() { # NAME KEY TITLE MODE STORE
    listen=$(port)
    cat >"$out/$1.yaml" <<YAML
version: 1
server: { threads: 1 }
listeners: [{ address: "127.0.0.1:$listen" }]
admin: { address: "127.0.0.1:$(port)" }
log: { access: false }
upstreams: { origin: { servers: ["127.0.0.1:$origin"] } }
routes: [{ id: all, path: /*, upstream: origin }]
limits:
  mode: $4
  default_rule: { capacity: 2000000000, refill_per_second: 1000000 }
  rules: [{ tenant: limited, route: all, capacity: 10, refill_per_second: 10 }]
$5
YAML
    measure "$1" "$2" "$3" "$programs/aforo" run -c "$out/$1.yaml"
}

stop=INT # Pingora alone waits for minutes at SIGTERM.
listen=$(port)
measure bare shop-a "bare pass-through" "$programs/examples/passthrough" "127.0.0.1:$listen" "127.0.0.1:$origin"
stop=TERM
gateway off shop-a "Aforo, \`limits.mode: off\`" off ""
gateway memory shop-a "Aforo, a bucket in the process" enforce ""
# Under valgrind all takes fifty times as long, and Redis's answers would be late.
store="store: { redis: { url: \"redis://127.0.0.1:$redis\", timeout: 1s } }
cluster: { instances: 20 }"
gateway lease shop-a "Aforo, one hot key, leases" enforce "$store"
gateway limited limited "Aforo, a client over its limit" enforce "$store"

{
    echo "<!-- Written by load/hot-key/profile.sh. -->"
    echo
    echo "# What a request is made of"
    echo
    echo "$requests requests on four kept connections: instructions in user mode by valgrind, system calls by strace, each for one request."
    echo
    echo "| the proxy | instructions | system calls |"
    echo "|---|--:|---|"
    printf '%s\n' "${rows[@]}"
    echo
    echo "Of the hot key's instructions, with all that is called:"
    echo
    echo "| part | instructions |"
    echo "|---|--:|"
    echo "| five rate headers on the response, \`RateHeaders::write\` | $(own lease RateHeaders::write) |"
    echo "| three headers to the upstream, \`forward::prepare\` | $(own lease aforo::gateway::forward::prepare) |"
    echo "| timeouts of silent clients and upstreams, and readings of the clock, beyond the bare pass-through | $(beyond_bare lease 'pingora_timeout|sync::notify|Timespec|clock_gettime') |"
    echo "| route, tenant, rule and decision, \`judge\` | $(own lease aforo::gateway::judge::judge) |"
} >"${PROFILE_OUT:-load/hot-key/profile.md}"
