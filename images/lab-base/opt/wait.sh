#!/bin/sh
# wait.sh TIME|forever - sleeps, and ends at once on TERM: PID 1 ignores signals that it has no handler for.
trap 'kill "$child" 2>/dev/null; exit 0' TERM INT
case $1 in
forever)
    while :; do
        sleep 86400 &
        child=$!
        wait "$child"
    done
    ;;
*)
    echo "waiting for $1"
    sleep "$1" &
    child=$!
    wait "$child"
    echo "the time is up: $1"
    ;;
esac
