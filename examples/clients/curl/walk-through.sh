#!/bin/sh
# Walks through the HTTP+SSE profile with curl: log in, open a stream, call a tool, read the reply.
#   sh walk-through.sh http://localhost:5110 TrialSite_List '{"pageSize":10}'
set -eu

origin=${1:-http://localhost:5110}
tool=${2:-TrialSite_List}
arguments=${3:-'{}'}
folder=$(mktemp -d)
stream_pid=
trap 'kill "$stream_pid" 2>/dev/null || true; rm -rf "$folder"' EXIT

# Waits up to ten seconds for a line in the stream, and prints what follows the pattern's start.
wait_for() {
  tries=0
  until grep -q "$1" "$folder/stream" 2>/dev/null; do
    tries=$((tries + 1))
    if [ "$tries" -gt 100 ]; then
      echo "nothing like $1 on the stream:" >&2
      cat "$folder/stream" >&2
      exit 1
    fi
    sleep 0.1
  done
}

# 1. A token from the test issuer of the sample; a server of your own has another authorization server.
token=$(curl -sS -X POST "$origin/.testoauth/token" \
  -d "grant_type=client_credentials&client_id=mcp-client&client_secret=dev-secret&scope=clinical:operations" |
  sed -n 's/.*"access_token":"\([^"]*\)".*/\1/p')
if [ -n "$token" ]; then set -- -H "Authorization: Bearer $token"; else set --; fi

# 2. The stream. In a terminal of its own, curl -N shows the events as they come.
curl -sSN "$origin/mcp/sse" -H "Accept: text/event-stream" "$@" >"$folder/stream" &
stream_pid=$!
wait_for '"sessionId"'
session=$(sed -n 's/.*"sessionId":"\([^"]*\)".*/\1/p' "$folder/stream" | head -n 1)

# 3. What there is to call.
curl -sS --fail-with-body "$origin/mcp/capabilities" "$@" >"$folder/capabilities"
grep -q "\"$tool\"" "$folder/capabilities" || { echo "no tool $tool in the capabilities" >&2; exit 1; }

# 4. A call: the session goes into header and query, the reply comes on the stream.
status=$(curl -sS -o "$folder/answer" -w '%{http_code}' -X POST "$origin/mcp/rpc?sessionId=$session" "$@" \
  -H "X-Mcp-Session: $session" -H "Content-Type: application/json" \
  -d "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"$tool\",\"arguments\":$arguments}}")
[ "$status" = 202 ] || { echo "not accepted: $status $(cat "$folder/answer")" >&2; exit 1; }
wait_for '^event: \(result\|error\)'
wait_for '"id":1.*}$'
sed -n '/^event: \(result\|error\)$/{n;s/^data: //p;}' "$folder/stream"
