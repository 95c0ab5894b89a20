#!/bin/sh
# Sets up the account, then waits for $AUTO_SHUTDOWN_TIME (90, 45s, 30m, 1h, 2d; default 1h), or, with
# AUTO_SHUTDOWN_TIME=idle, until nothing has been going on for 30 minutes.
/opt/lab/setup.sh
[ "$AUTO_SHUTDOWN_TIME" = idle ] && exec /opt/lab/bin/sleeper
exec /opt/lab/wait.sh "${AUTO_SHUTDOWN_TIME:-1h}"
