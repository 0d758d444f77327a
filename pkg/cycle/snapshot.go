package cycle

import fwk "k8s.io/kube-scheduler/framework"

// SameNodes reports whether these are one list of nodes of a snapshot, not whether they are equal. kube-scheduler makes
// another list whenever a node comes or goes.
func SameNodes(a, b []fwk.NodeInfo) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
