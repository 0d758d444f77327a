package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/topology"
)

func TestWhereSegmentsLie(t *testing.T) {
	lie := map[string]topology.Node{}
	for node, rack := range map[string]string{"a": "r1", "b": "r1", "c": "r2", "d": ""} {
		lie[node] = topology.Node{Name: node, Labels: map[string]string{names.LabelRack: rack}}
	}
	on := func(nodes ...string) (pods []Pod) {
		for rank, node := range nodes {
			pods = append(pods, Pod{Rank: ptr.To(rank), Node: node})
		}
		return pods
	}
	tests := map[string]struct {
		pods []Pod
		want []Segment
	}{
		"each in one rack":              {on("a", "b", "c"), []Segment{{First: 0, Last: 1, Domains: []string{"r1"}}, {First: 2, Last: 2, Domains: []string{"r2"}}}},
		"one in two racks":              {on("c", "b", "c"), []Segment{{First: 0, Last: 1, Domains: []string{"r1", "r2"}}, {First: 2, Last: 2, Domains: []string{"r2"}}}},
		"one without places":            {on("a", "b"), []Segment{{First: 0, Last: 1, Domains: []string{"r1"}}, {First: 2, Last: 2}}},
		"a node whose rack is not told": {on("d", "b", ""), []Segment{{First: 0, Last: 1, Domains: []string{"r1"}}, {First: 2, Last: 2}}},
		"a rank that the job has not":   {append(on("a"), Pod{Rank: ptr.To(7), Node: "c"}, Pod{Rank: ptr.To(-1), Node: "c"}, Pod{Node: "c"}), []Segment{{First: 0, Last: 1, Domains: []string{"r1"}}, {First: 2, Last: 2}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := &JobDetail{Job: Job{Desired: 3, Pods: tc.pods}}
			if diff := cmp.Diff(tc.want, segmentsOf(job, 2, "rack", lie)); diff != "" {
				t.Errorf("segments (-want +got):\n%s", diff)
			}
		})
	}
}
