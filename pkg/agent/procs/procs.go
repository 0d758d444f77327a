// Package procs finds the pod of a process, by its control group.
package procs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Root is where Linux lists processes. The agent must see those of the machine.
const Root = "/proc"

// podPattern finds the UID in the path of a control group, as kubelet names it with either driver:
// …/kubepods/burstable/pod2f1d…/… or …-pod2f1d_….slice/….
var podPattern = regexp.MustCompile(`\bpod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:/|$)`)

// FindPod returns the pod of a process, "" for a process outside of pods.
func FindPod(root string, pid int) (types.UID, error) {
	data, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return "", fmt.Errorf("finding the pod of process %d: %w", pid, err)
	}
	return parsePodUID(string(data)), nil
}

func parsePodUID(cgroups string) types.UID {
	for line := range strings.Lines(cgroups) {
		if found := podPattern.FindStringSubmatch(strings.TrimSpace(line)); found != nil {
			return types.UID(strings.ReplaceAll(found[1], "_", "-"))
		}
	}
	return ""
}
