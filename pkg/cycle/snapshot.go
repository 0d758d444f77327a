package cycle

import fwk "k8s.io/kube-scheduler/framework"

// SameNodes reports whether two lists of snapshot nodes are identical, not merely equal. kube-scheduler creates another list whenever a node is
// added or removed.
func SameNodes(a, b []fwk.NodeInfo) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
