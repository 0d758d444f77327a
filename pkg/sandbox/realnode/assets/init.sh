# The first process of a real node, in a mount and a PID namespace of its own. $1 is the node's folder, $2 the file that
# gets its process id; the other arguments are the command to become.
set -eu
dir=$1 pidfile=$2
shift 2
# The machine's /proc is mounted still, so this is the process id as the machine counts.
read -r pid rest </proc/self/stat
echo "$pid" >"$pidfile"
mount -n --make-rprivate /
mount -n -t proc proc /proc
for path in run var/lib var/log; do
  mkdir -p "$dir/$path"
  mount -n --bind "$dir/$path" "/$path"
done
# kubelet and the network plugins write these. They get files that look the same.
mkdir -p "$dir/sysctl"
for path in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
  kernel/keys/root_maxbytes net/ipv4/ip_forward; do
  file=$dir/sysctl/$(echo "$path" | tr / .)
  cat "/proc/sys/$path" >"$file"
  mount -n --bind "$file" "/proc/sys/$path"
done
# A boot of its own, so that a test can have the machine restart.
cat /proc/sys/kernel/random/uuid >"$dir/boot_id"
mount -n --bind "$dir/boot_id" /proc/sys/kernel/random/boot_id
# Volumes of pods are to see mounts that come later.
mount -n --make-rshared /
touch "$dir/mounted"
exec "$@"
