package render

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/workload"
)

// checkHostPaths refuses a job that mounts a path of the node which is not allowed. It tells authors early; what
// keeps others from it is the policy in manifests/policy.
func checkHostPaths(job *workload.Job, allowed []string) error {
	if allowed == nil {
		return nil
	}
	for dir, at := range job.Storage.Dirs() {
		if dir.Path == "" || slices.ContainsFunc(allowed, func(prefix string) bool { return isBelow(dir.Path, prefix) }) {
			continue
		}
		return fmt.Errorf("%s: the administrator does not allow jobs to mount %s of the node (%s): use pvc or size, or ask for it",
			at, dir.Path, listed(allowed))
	}
	return nil
}

// isBelow says whether a path is prefix or below it.
func isBelow(p, prefix string) bool {
	p, prefix = path.Clean(p), path.Clean(prefix)
	return p == prefix || strings.HasPrefix(p, strings.TrimSuffix(prefix, "/")+"/")
}

func listed(allowed []string) string {
	if len(allowed) == 0 {
		return "no path is allowed"
	}
	return "allowed: " + strings.Join(allowed, ", ")
}
