package coscheduling

import (
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// isKeptWhole reports whether a node is reserved for pods that need a whole node.
func isKeptWhole(status *fwk.Status) bool {
	_, whole := reason.KeptForWhole.Text.ParseValues(status.Message())
	return whole
}

// keptWhole returns the nodes that were refused because they are reserved for pods that need a whole node, nil for none.
func keptWhole(nodes []fwk.NodeInfo, refused fwk.NodeToStatusReader) (kept sets.Set[string]) {
	if refused == nil {
		return nil
	}
	for _, info := range nodes {
		if name := info.Node().Name; isKeptWhole(refused.Get(name)) {
			if kept == nil {
				kept = sets.New[string]()
			}
			kept.Insert(name)
		}
	}
	return kept
}
