package agent

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// findMountRoot returns which folder of its file system is mounted where a file lies, according to the kernel. In a container the folder of specs is a
// mount of its own: it stays there when the host renames the folder, and its path in the container stays the same.
func findMountRoot(file *os.File) (string, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", file.Fd()))
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	return mountRoot(mounts, info)
}

// mountRoot finds the mount that fdinfo names in mountinfo, and returns its root; both are as proc(5) has them.
func mountRoot(mounts, info []byte) (string, error) {
	id := ""
	for line := range bytes.Lines(info) {
		if value, ok := strings.CutPrefix(string(line), "mnt_id:"); ok {
			id = strings.TrimSpace(value)
		}
	}
	for line := range bytes.Lines(mounts) {
		fields := strings.Fields(string(line)) // ID, parent, device, root, mount point, …
		if len(fields) > 4 && fields[0] == id {
			return fields[3], nil
		}
	}
	return "", fmt.Errorf("mount %q is not there", id)
}
