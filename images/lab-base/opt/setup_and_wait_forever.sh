#!/bin/sh
# Sets up the account, then waits until the pod is deleted.
/opt/lab/setup.sh
exec /opt/lab/wait.sh forever
