#!/bin/sh
# An account named as on the cluster, so that files belong to the right person and `su NAME` works. As root it is
# made for CLUSTER_USER_ID; otherwise the container already runs with the person's uid, which gets its name.
# No passwords and no sudo: who may be root in a pod is Berth's business.
uid=$(id -u)
[ "$uid" = 0 ] && uid=${CLUSTER_USER_ID:-}
user=${CLUSTER_USER:-}
if [ -z "$user" ] || [ -z "$uid" ]; then
    echo "  no CLUSTER_USER and CLUSTER_USER_ID: nobody to set up"
    exit 0
fi
case $user in *[!a-z0-9._-]* | -*) echo "  CLUSTER_USER '$user' is no name" >&2; exit 1 ;; esac
case $uid in *[!0-9]*) echo "  CLUSTER_USER_ID '$uid' is no number" >&2; exit 1 ;; esac
gid=${CLUSTER_GROUP_ID:-$uid}
group=${CLUSTER_GROUP_NAME:-$user}
[ "$(id -u)" = 0 ] || gid=$(id -g)
case $gid in *[!0-9]*) echo "  CLUSTER_GROUP_ID '$gid' is no number" >&2; exit 1 ;; esac
case $group in *[!A-Za-z0-9._-]*) echo "  CLUSTER_GROUP_NAME '$group' is no name" >&2; exit 1 ;; esac

shell=/bin/sh
[ -x /bin/bash ] && shell=/bin/bash
home=${CLUSTER_USER_HOME:-/home/$user}
grep -q "^[^:]*:[^:]*:$gid:" /etc/group || echo "$group:x:$gid:" >>/etc/group
if ! grep -q "^$user:" /etc/passwd; then
    echo "$user:x:$uid:$gid:$user:$home:$shell" >>/etc/passwd
fi
if [ "$(id -u)" = 0 ]; then
    grep -q "^$user:" /etc/shadow 2>/dev/null || echo "$user:*:19000:0:99999:7:::" >>/etc/shadow
    chmod 0644 /etc/passwd /etc/group
fi
if [ ! -d "$home" ]; then
    mkdir -p "$home" && [ "$(id -u)" = 0 ] && chown "$uid:$gid" "$home"
fi
echo "  $user is uid $uid, gid $gid, home $home"
