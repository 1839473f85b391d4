#!/usr/bin/env bash
# What a newcomer does, in a fresh clone with an environment of its own: `make serve`, then the README's first question.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
server=
finish() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
    rm -rf "$folder"
}
trap finish EXIT

git clone --quiet . "$folder/gpufare"
cd "$folder/gpufare"
export HOME="$folder/home" XDG_DATA_HOME="$folder/data"
# Only what is not polled without credentials: with a network, the others would soon know better than the snapshot.
export GPUFARE_ONLY=tencent,gcp,alibaba
unset GPUFARE_CONFIG GPUFARE_URL
make install

port=$("$PWD/.venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
.venv/bin/gpufare serve --port "$port" &
server=$!
for _ in $(seq 60); do
    curl --silent --fail "http://127.0.0.1:$port/readyz" >/dev/null && break
    sleep 1
done
answer=$(curl --silent --fail "http://127.0.0.1:$port/cheapest?gpu=a100-80g")
echo "$answer" | .venv/bin/python -c '
import json, sys
answer = json.load(sys.stdin)
best = answer["best"]
assert answer["verdict"] == "unconfirmed", answer["verdict"]
assert best["stock"]["evidence"] == "snapshot" and best["stock"]["age_s"] > 0, best["stock"]
assert best["native_price"]["age_s"] > 0, best["native_price"]
print("fresh clone:", answer["message"])
'
