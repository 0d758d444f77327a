package diagnosis

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestSlicesAreCountedAsTheSchedulerDoes is about a node of two cards in MIG mode with two slices each, all of which kubelet offers.
func TestSlicesAreCountedAsTheSchedulerDoes(t *testing.T) {
	const profile, verdict = "1g.10gb", "0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb."
	host := func(broken ...int) *fixture.NodeBuilder {
		cards := fixture.Cards("n1", 81920, 81920).Unhealthy(broken...).Sliced(profile, 2, 0, 1).Annotation(t)
		return fixture.Node("n1").Pool("p").Slices(profile, 4).Annotate(names.AnnotationInventory, cards)
	}
	holder := fixture.Pod("holder").Slices(profile, 2).Obj()
	holder.Namespace, holder.Spec.NodeName = "team", "n1"
	for name, tc := range map[string]struct {
		node  *fixture.NodeBuilder
		asks  int64
		cause reason.Cause
		says  string
		field string // the most that is advised to ask for
	}{
		"a card is broken": {
			node: host(0), asks: 3, cause: reason.UnhealthyGPUs,
			says: "1 node with too few healthy GPUs: 2 of 4 MIG slices of 1g.10gb healthy, 1 short", field: "2",
		},
		"all cards are broken": {
			node: host(0, 1), asks: 1, cause: reason.UnhealthyGPUs, says: "1 node with too few healthy GPUs: 0 of 4 MIG slices of 1g.10gb healthy, 1 short",
		},
		"a card is broken, and others hold the rest": {
			node: host(0), asks: 2, cause: reason.ResourceShort, says: "1 node with too little MIG 1g.10gb free: a pod asks for 2, at most 0 is free on one",
		},
		"others hold some": {
			node: host(), asks: 3, cause: reason.ResourceShort, says: "1 node with too little MIG 1g.10gb free: a pod asks for 3, at most 2 is free on one", field: "2",
		},
		"the node has fewer": {
			node: host(0), asks: 5, cause: reason.ResourceShort,
			says: "1 node with too little MIG 1g.10gb free: a pod asks for 5, at most 0 is free on one, and no node has more than 4",
		},
	} {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(refused(fixture.Pod("p").Slices(profile, tc.asks).Pool("p"), verdict), tc.node)
			facts.Cluster.Pods = []corev1.Pod{*holder}
			report := Diagnose(facts)
			if report.Cause != tc.cause || len(report.Findings) != 1 || !strings.HasPrefix(report.Findings[0].Text, tc.says) {
				t.Fatalf("cause %s, findings %+v; want %s: %s", report.Cause, report.Findings, tc.cause, tc.says)
			}
			field := ""
			if at := slices.IndexFunc(report.Findings[0].Steps, func(s Step) bool { return s.Action == reason.SetField }); at >= 0 {
				field = report.Findings[0].Steps[at].Value
				if report.Findings[0].Steps[at].Field != reason.FieldMIG {
					t.Errorf("it is advised to set %s", report.Findings[0].Steps[at].Field)
				}
			}
			if field != tc.field {
				t.Errorf("it is advised to ask for at most %q, want %q", field, tc.field)
			}
		})
	}
}
