package coscheduling

import (
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// isKeptWhole reports whether a node is kept from a pod for those that want all of it.
func isKeptWhole(status *fwk.Status) bool {
	_, whole := reason.KeptForWhole.Text.In(status.Message())
	return whole
}

// keptWhole are the nodes that are kept whole from a pod, nil for none.
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
