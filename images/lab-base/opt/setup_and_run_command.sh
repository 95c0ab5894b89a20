#!/bin/sh
# setup_and_run_command.sh 'COMMAND' - sets up the account, then runs one command line as that user, in the user's
# home, with .bashrc read. Its exit code is the container's; TERM reaches it.
[ $# -gt 0 ] || { echo "usage: setup_and_run_command.sh 'COMMAND'" >&2; exit 2; }
/opt/lab/setup.sh
user=${CLUSTER_USER:-$(id -un 2>/dev/null || echo root)}
shell=/bin/sh
[ -x /bin/bash ] && shell=/bin/bash
home=$(sed -n "s/^$user:[^:]*:[^:]*:[^:]*:[^:]*:\([^:]*\):.*/\1/p" /etc/passwd)
line="cd '${home:-/}' 2>/dev/null; [ -r ~/.bashrc ] && . ~/.bashrc; $*"
# Not exec: PID 1 ignores TERM unless it has a handler, which most programs have not.
if [ "$(id -u)" != 0 ] || [ "$user" = root ]; then
    HOME=${home:-/} USER=$user "$shell" -c "$line" &
else
    su -s "$shell" "$user" -c "export HOME='${home:-/}' USER='$user'; $line" &
fi
child=$!
trap 'kill -TERM -- "$child" 2>/dev/null; pkill -TERM -P "$child" 2>/dev/null' TERM INT
wait "$child"
code=$?
while kill -0 "$child" 2>/dev/null; do
    wait "$child"
    code=$?
done
exit $code
