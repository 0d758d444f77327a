package simulate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/whatif"
	"g8s.host/gpu-scheduler/test/fixture"
)

func shareOf(namespace string, least, most int64) names.GPUQuota {
	return names.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: names.GPUQuotaSpec{Namespaces: []string{namespace}, Pool: names.DefaultPool, Min: least, Max: ptr.To(most)}}
}

// TestAnAnswerKnowsGPUQuotas: how much a namespace may have with what it was just given, and who leaves for whom.
func TestAnAnswerKnowsGPUQuotas(t *testing.T) {
	pod := func(namespace, name, node string) corev1.Pod {
		out := fixture.Pod(name).GPUs(8).Obj()
		out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		out.Namespace, out.UID, out.Spec.SchedulerName, out.Spec.NodeName = namespace, types.UID(name), names.SchedulerName, node
		out.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
		return *out
	}
	borrowed := []corev1.Pod{pod("theirs", "x", "a"), pod("theirs", "y", "b")}
	tests := map[string]struct {
		quotas  []names.GPUQuota
		there   []corev1.Pod
		asks    int
		starts  int
		evicted int
	}{
		"without quotas":                    {asks: 2, starts: 2},
		"its max is reached with the first": {quotas: []names.GPUQuota{shareOf("team", 0, 8)}, asks: 2, starts: 1},
		"it may have none":                  {quotas: []names.GPUQuota{shareOf("team", 0, 4)}, asks: 1},
		"nobody leaves without a guarantee": {quotas: []names.GPUQuota{shareOf("team", 0, 16)}, there: borrowed, asks: 1},
		"who borrows leaves":                {quotas: []names.GPUQuota{shareOf("team", 8, 16)}, there: borrowed, asks: 1, starts: 1, evicted: 1},
		"as much as is guaranteed":          {quotas: []names.GPUQuota{shareOf("team", 8, 16)}, there: borrowed, asks: 2, starts: 1, evicted: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			question := &whatif.Question{Pods: tc.there, Quotas: tc.quotas, Now: time.Unix(0, 0),
				Nodes: []corev1.Node{*fixture.Node("a").GPUs(8, "A100-80G").Obj(), *fixture.Node("b").GPUs(8, "A100-80G").Obj()}}
			for i := range tc.asks {
				raw, err := json.Marshal(pod("team", fmt.Sprint("p", i), ""))
				if err != nil {
					t.Fatal(err)
				}
				question.Workload = append(question.Workload, raw)
			}
			outcome, err := simulate.Answer(t.Context(), question, shipped(t))
			if err != nil {
				t.Fatal(err)
			}
			started := slices.DeleteFunc(outcome.Pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == "" })
			if len(started) != tc.starts || len(outcome.Evicted) != tc.evicted {
				t.Errorf("%d start and %v leave, want %d and %d", len(started), outcome.Evicted, tc.starts, tc.evicted)
			}
		})
	}
}

// TestAReplayKnowsGPUQuotas of the cluster that it reads, also when pods have ended.
func TestAReplayKnowsGPUQuotas(t *testing.T) {
	quota := shareOf("default", 0, 8)
	quota.TypeMeta = metav1.TypeMeta{APIVersion: names.SchemeGroupVersion.String(), Kind: "GPUQuota"}
	node := fixture.Node("a").GPUs(16, "A100-80G").Obj()
	node.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	var text []byte
	for _, object := range []any{quota, node} {
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, raw...), "\n---\n"...)
	}
	cluster, _, err := simulate.ParseCluster(text)
	if err != nil || len(cluster.Quotas) != 1 {
		t.Fatalf("%d quotas are read: %v", len(cluster.Quotas), err)
	}
	var arrivals []simulate.Arrival
	for i := range 3 {
		pod := fixture.Pod(fmt.Sprint("p", i)).GPUs(8).Obj()
		pod.Namespace, pod.UID, pod.Spec.SchedulerName = "default", types.UID(pod.Name), names.SchedulerName
		arrivals = append(arrivals, simulate.Arrival{Pod: pod, Lifetime: time.Hour})
	}
	result, err := simulate.Run(t.Context(), cluster, arrivals, shipped(t), simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var at []float64
	for _, decision := range result.Decisions {
		at = append(at, decision.At)
	}
	if want := []float64{0, 3600, 7200}; !slices.Equal(at, want) {
		t.Errorf("they start after %v, want one after the other: %v", at, want)
	}
}
