#!/bin/sh
# With SSH_PUBLIC_KEY: a server for that key alone, on SSH_PORT (22), where the image has sshd. In the background;
# reach it with kubectl port-forward POD 2222:22.
[ -n "${SSH_PUBLIC_KEY:-}" ] || exit 0
sshd=$(command -v sshd || echo /usr/sbin/sshd)
[ -x "$sshd" ] || { echo "  this image has no sshd (apt install openssh-server)" >&2; exit 1; }
user=${CLUSTER_USER:-root}
home=$(sed -n "s/^$user:[^:]*:[^:]*:[^:]*:[^:]*:\([^:]*\):.*/\1/p" /etc/passwd)
keys=/tmp/lab-ssh
mkdir -p "$keys" "${home:-/}/.ssh" /run/sshd 2>/dev/null
printf '%s\n' "$SSH_PUBLIC_KEY" >"${home:-/}/.ssh/authorized_keys"
chmod 700 "${home:-/}/.ssh" && chmod 600 "${home:-/}/.ssh/authorized_keys"
[ "$(id -u)" != 0 ] || chown -R "$user" "${home:-/}/.ssh"
[ -f "$keys/key" ] || ssh-keygen -q -t ed25519 -N '' -f "$keys/key"
# Without PAM, which lets nobody in where it is not root.
"$sshd" -h "$keys/key" -p "${SSH_PORT:-22}" -o UsePAM=no -o PasswordAuthentication=no \
    -o KbdInteractiveAuthentication=no -o SetEnv="PATH=$PATH" -o PidFile="$keys/pid" -E "$keys/log" &&
    echo "  sshd for $user on port ${SSH_PORT:-22}"
