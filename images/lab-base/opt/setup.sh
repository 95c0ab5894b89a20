#!/bin/sh
# Runs every step of setup_steps, in the order of their names. A step that fails is told and does not end the rest:
# a container one can enter is the better place to find out why.
for step in /opt/lab/setup_steps/*.sh; do
    [ -r "$step" ] || continue
    echo "setup: ${step##*/}"
    sh "$step" || echo "setup: ${step##*/} failed with $?" >&2
done
