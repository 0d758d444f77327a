#!/usr/bin/env bash
# Replays Philly's jobs under queueing policies and writes the tables into docs/benchmarks/queueing.md, between its marks.
set -euo pipefail
cd "$(dirname "$0")/.."

page=docs/benchmarks/queueing.md
tables=$(mktemp) new=$(mktemp)
trap 'rm -f "$tables" "$new"' EXIT

bin/gpu-scheduler simulate queueing --nodes 80,96,64 --ties 10 -o markdown \
  --reference pkg/simulate/queueing/testdata/reference.csv > "$tables"

awk -v tables="$tables" '
  /^<!-- end of the tables -->$/ { inside = 0 }
  !inside { print }
  /^<!-- tables of make bench-queueing -->$/ { inside = 1; print ""; while ((getline line < tables) > 0) print line }
' "$page" > "$new"
cat "$new" > "$page"
