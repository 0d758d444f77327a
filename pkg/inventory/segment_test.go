package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			if diff := cmp.Diff(tc.want, divideRanks(job, 2, "rack", lie)); diff != "" {
				t.Errorf("segments (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSegmentsAreToldByNodesThatAreKnown alone: where none is, it is not told that members have no place.
func TestSegmentsAreToldByNodesThatAreKnown(t *testing.T) {
	racked := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{names.LabelRack: "r1"}}}
	runs, waits := []Pod{{Rank: ptr.To(0), Node: "a"}}, []Pod{{Rank: ptr.To(0)}}
	tests := map[string]struct {
		pods  []Pod
		size  int
		nodes []corev1.Node
		want  []Segment
	}{
		"it runs":               {runs, 1, []corev1.Node{racked}, []Segment{{Domains: []string{"r1"}}, {First: 1, Last: 1}}},
		"no node may be read":   {runs, 1, nil, nil},
		"it waits":              {waits, 1, nil, []Segment{{}, {First: 1, Last: 1}}},
		"a size that is none":   {runs, -1, []corev1.Node{racked}, nil},
		"it has no segments":    {runs, 0, []corev1.Node{racked}, nil},
		"a size beyond the job": {runs, 1 << 40, []corev1.Node{racked}, []Segment{{Last: 1, Domains: []string{"r1"}}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := &JobDetail{Job: Job{Desired: 2, Pods: tc.pods}}
			job.FillSegments(tc.size, "rack", tc.nodes)
			if diff := cmp.Diff(tc.want, job.Segments); diff != "" {
				t.Errorf("segments (-want +got):\n%s", diff)
			}
		})
	}
}
