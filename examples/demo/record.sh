#!/bin/sh
# Records the demo of `meantime view --demo`: a shop under load, its CPU samples, and the sessions
# of its database. It needs PostgreSQL 15, perf, and Python 3.11 with meantime, asyncpg, starlette
# and uvicorn. FOLDER gets server.mtr, cpu.perf.gz and postgres.statemap.gz.
#
#   PGHOST=/tmp PGUSER=postgres examples/demo/record.sh FOLDER
set -eu
folder=$1
cd "$(dirname "$0")"
mkdir -p "$folder"
psql -q -d postgres -c 'drop database if exists shop' -c 'create database shop'
psql -q -d shop <<'SQL'
create table stock (product int primary key, count int not null);
create table orders (number serial primary key, product int, note text, plain bool);
insert into stock select n, 1000 from generate_series(0, 7) n;
vacuum analyze stock;
SQL

server= sampler=
trap 'kill -INT $server $sampler 2> /dev/null || true' EXIT
meantime record -q --force --no-follow --samples 97 -o "$folder/server.mtr" -- python shop.py &
recorder=$!
until python -c 'import socket; socket.create_connection(("127.0.0.1", 8090))' 2> /dev/null; do
    sleep 0.2
done
server=$(pgrep -n -P "$recorder" -f "^python shop.py" || echo "$recorder")
python watch_postgres.py 4 > "$folder/postgres.statemap" &
watcher=$!
perf record -q -k CLOCK_MONOTONIC -F 997 --call-graph dwarf,16384 -p "$server" \
    -o "$folder/perf.data" &
sampler=$!
sleep 0.3
python warehouse.py &
warehouse=$!
python customers.py
kill -INT "$sampler" "$server"
wait "$recorder" || true
wait "$sampler" || true
wait "$watcher" "$warehouse"
perf script --header --no-inline -F comm,pid,tid,time,period,event,ip,sym -i "$folder/perf.data" |
    sed "s#$folder/##" | gzip -9n > "$folder/cpu.perf.gz"
gzip -9nf "$folder/postgres.statemap"
rm "$folder/perf.data" "$folder/server.mtr/usage"
