package simulate

import (
	"cmp"
	"maps"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// rejectionReasons returns why nodes were rejected, the most frequent reason first. Nodes that were skipped because they are in another pool or of another
// type are omitted if any other node has a reason.
func rejectionReasons(unfit *framework.FitError) []string {
	counts := map[string]int{}
	count := func(status *fwk.Status) {
		for _, reason := range status.Reasons() {
			counts[reason]++
		}
	}
	unfit.Diagnosis.NodeToStatus.ForEachExplicitNode(func(_ string, status *fwk.Status) { count(status) })
	if len(counts) == 0 {
		count(unfit.Diagnosis.NodeToStatus.AbsentNodesStatus())
	}
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}
