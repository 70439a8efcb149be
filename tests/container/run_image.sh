#!/bin/sh
# Runs a command in the files of the container image as `docker compose up` does, without a container engine:
# as user 10001 on a read-only root, with /tmp, the state folder and the hooks mounted. Needs root.
#
#   run_image.sh ROOT STATE HOOKS COMMAND...
set -eu
root=$1 state=$2 hooks=$3
shift 3
export root state hooks
exec unshare --mount --pid --fork --kill-child sh -eu -c '
  mount --rbind "$root" "$root"
  mount --bind "$state" "$root/var/lib/hookgate"
  mount --bind "$hooks" "$root/hooks"
  mount -o remount,bind,ro "$root/hooks"
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  mount -o remount,bind,ro "$root"
  cd "$root"
  exec setpriv --no-new-privs chroot --userspec=10001:10001 "$root" "$@"
' run "$@"
