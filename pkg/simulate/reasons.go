package simulate

import (
	"cmp"
	"maps"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// reasonsOf returns why nodes were rejected, the most frequent reason first. Nodes that were not looked at, since the
// pod asks for those of another pool or type, are left out where any others tell.
func reasonsOf(unfit *framework.FitError) []string {
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
