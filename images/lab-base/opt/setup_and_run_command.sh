#!/bin/sh
# setup_and_run_command.sh 'COMMAND' - sets up the account, then runs one command line as that user, in the user's
# home, with .bashrc read. Its exit code is the container's. TERM reaches all programs of the line, and the container
# ends when they have.
[ $# -gt 0 ] || { echo "usage: setup_and_run_command.sh 'COMMAND'" >&2; exit 2; }
/opt/lab/setup.sh
user=${CLUSTER_USER:-$(id -un 2>/dev/null || echo root)}
shell=/bin/sh
[ -x /bin/bash ] && shell=/bin/bash
entry=$(grep "^$user:" /etc/passwd)
home=$(echo "$entry" | cut -d: -f6)
# The trap is of a shell that waits for a program: it ends after that one, not before, with its exit code.
line="export HOME='${home:-/}' USER='$user'; cd 2>/dev/null; [ -r ~/.bashrc ] && . ~/.bashrc; trap 'exit \$?' TERM; $*"
# Not exec: PID 1 ignores TERM unless it has a handler, which most programs have not. Not su where there is a choice:
# it kills its shell two seconds after TERM.
if [ "$(id -u)" != 0 ] || [ "$user" = root ]; then
    "$shell" -c "$line" &
elif setpriv --help 2>&1 | grep -q -- --reuid; then
    setpriv --reuid "$user" --regid "$(echo "$entry" | cut -d: -f4)" --init-groups "$shell" -c "$line" &
else
    su -s "$shell" "$user" -c "$line" &
fi
child=$!

# The processes below one. Not every image has pgrep.
# shellcheck disable=SC2013,SC2317
below() {
    for pid in $(sed -n "s/^\([0-9]*\) (.*) [A-Za-z] $1 .*/\1/p" /proc/[0-9]*/stat 2>/dev/null); do
        echo "$pid"
        below "$pid"
    done
}
alive() {
    grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null
}

told=''
trap 'told="$child $(below "$child")"; kill -TERM $told 2>/dev/null' TERM INT
wait "$child"
code=$?
while alive "$child"; do
    wait "$child"
    code=$?
done
for pid in $told; do # those whose shell did not wait for them
    while alive "$pid"; do sleep 0.1; done
done
exit $code
