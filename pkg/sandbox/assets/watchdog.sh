# Ends a sandbox whose owner is gone. Standard input is a pipe that only the owner holds open: its end is the
# owner's end, however it came. $1 is the sandbox's directory, which holds run/NAME.pid for each child. A child
# leads its own process group.
dir=$1
trap '' HUP INT TERM
cat >/dev/null
for file in "$dir"/run/*.pid; do
  read -r pid <"$file" && kill -s KILL -- "-$pid"
done 2>/dev/null
# A child that was being written to disk when it died can still hold the directory for a moment.
for _ in 1 2 3 4 5 6 7 8 9 10; do
  rm -rf -- "$dir" 2>/dev/null && exit 0
  sleep 0.2
done
