package observe

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

func podOf(name, pool, gpus string) *corev1.Pod {
	made := st.MakePod().Name(name).UID(name).Label(names.LabelPool, pool)
	if gpus != "" {
		made.Req(map[corev1.ResourceName]string{names.ResourceGPU: gpus})
	}
	return made.Obj()
}

// TestPodsAreCountedAsTheyComeAndLeave counts stores, and compares with what is counted afresh.
func TestPodsAreCountedAsTheyComeAndLeave(t *testing.T) {
	one, two, three := podOf("one", "a", "1"), podOf("two", "a", "2"), podOf("three", "a", "2")
	steps := []struct {
		why  string
		pods []any
		want int64 // that ask for cards
	}{
		{"those that were there before", []any{one, two}, 2},
		{"nothing changed but the order", []any{two, one}, 2},
		{"one comes, one leaves", []any{two, three}, 2},
		{"pods without cards are nobody", []any{two, three, podOf("cpu", "a", "")}, 2},
		{"nor are they when they leave", []any{two, three}, 2},
		{"what is no pod is nobody", []any{two, three, "text"}, 2},
		{"a pod that is listed twice is one", []any{two, two}, 1},
		{"all leave", nil, 0},
	}
	var c podCount
	for _, step := range steps {
		c.update(step.pods)
		if c.Len() != step.want {
			t.Errorf("%s: %d pods, want %d", step.why, c.Len(), step.want)
		}
	}
	if len(c.seen) > 0 {
		t.Errorf("pods %v are remembered, long after all have left", c.seen)
	}
}

func TestAskOf(t *testing.T) {
	pod := st.MakePod().Label(names.LabelPool, "a").Annotation(names.AnnotationGPUTypes, "T4,A10").
		Req(map[corev1.ResourceName]string{"cpu": "2", "memory": "3Gi", names.ResourceGPU: "2"}).Obj()
	want := fragmentation.Ask{Pool: "a", Types: "A10,T4", Whole: 2, MilliCPU: 2000, MemoryMiB: 3072}
	if got := AskOf(pod); got != want {
		t.Errorf("ask %+v, want %+v", got, want)
	}
	pod.Annotations[names.AnnotationGPUShare] = "none"
	if got := AskOf(pod); !got.NoCards() {
		t.Errorf("ask %+v of a pod that cannot be read, want none for cards", got)
	}
}

// BenchmarkPodCount is one of 20,000 pods of which a few are new, as there are a few in 256 attempts.
func BenchmarkPodCount(b *testing.B) {
	var c podCount
	var pods []any
	for i := range 20_000 {
		pods = append(pods, podOf(fmt.Sprint("pod-", i), "a", fmt.Sprint(1+i%8)))
	}
	c.update(pods[:len(pods)-1])
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.update(pods[i%2 : len(pods)-1+i%2])
	}
}
