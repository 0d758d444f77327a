# Ends a sandbox whose owner is gone. Standard input is a pipe that only the owner holds open: its end is the
# owner's end, however it came. $1 is the sandbox's directory, which holds run/NAME.pid for each child. A child
# leads its own process group. run/NAME.cgroup holds the name of a cgroup that the sandbox has made.
dir=$1
trap '' HUP INT TERM
cat >/dev/null
for file in "$dir"/run/*.pid; do
  pid=0
  read -r pid <"$file"
  [ "$pid" -gt 1 ] && kill -s KILL -- "-$pid"
done 2>/dev/null
# A child that was being written to disk when it died can still hold the directory for a moment, and its cgroup; on a busy
# machine for seconds.
tries=50
while [ $((tries -= 1)) -ge 0 ]; do
  left=
  for file in "$dir"/run/*.cgroup; do
    read -r name <"$file" && [ -n "$name" ] || continue
    find /sys/fs/cgroup/"$name" /sys/fs/cgroup/*/"$name" -depth -type d -exec rmdir {} +
    ls -d /sys/fs/cgroup/"$name" /sys/fs/cgroup/*/"$name" >/dev/null && left=yes
  done 2>/dev/null
  [ -z "$left" ] && rm -rf -- "$dir" 2>/dev/null && exit 0
  sleep 0.2
done
