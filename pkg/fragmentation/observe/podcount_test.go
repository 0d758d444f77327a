package observe

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
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
		c.recountPods(step.pods)
		if c.Len() != step.want {
			t.Errorf("%s: %d pods, want %d", step.why, c.Len(), step.want)
		}
	}
	if len(c.seen) > 0 {
		t.Errorf("pods %v are remembered, long after all have left", c.seen)
	}
}

// TestPodsAreFollowed changes a store at random, a few pods or many between two counts, and compares with a count of all.
func TestPodsAreFollowed(t *testing.T) {
	informer := informers.NewSharedInformerFactory(nil, 0).Core().V1().Pods().Informer()
	store, r := informer.GetIndexer(), rand.New(rand.NewPCG(3, 1))
	random := func() *corev1.Pod {
		pod := podOf(fmt.Sprint("pod-", r.IntN(300)), fmt.Sprint(r.IntN(3)), []string{"", "1", "4"}[r.IntN(3)])
		pod.Namespace, pod.UID = fmt.Sprint("ns-", r.IntN(2)), types.UID(fmt.Sprint(r.Int64()))
		return pod
	}
	var followed podCount
	for step := range 400 {
		for range []int{0, 1, 5, 200}[r.IntN(4)] {
			pod := random()
			known, ok, err := store.Get(pod)
			switch what := r.IntN(4); {
			case err == nil && ok && what < 2:
				err = store.Delete(known)
			case err == nil && ok && what == 2: // a change that is not another pod
				same := known.(*corev1.Pod).DeepCopy()
				same.Labels["i"] = fmt.Sprint(step)
				err = store.Update(same)
			case err == nil:
				err = store.Update(pod)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if step%100 == 99 { // a broken watch: what is not in the new list is not told of
			if err := store.Replace(store.List()[:len(store.List())/10], ""); err != nil {
				t.Fatal(err)
			}
			for range recountInterval {
				follow(t, &followed, informer)
			}
		}
		follow(t, &followed, informer)
		var afresh podCount
		afresh.recountPods(store.List())
		if diff := cmp.Diff(asksOf(&afresh), asksOf(&followed)); diff != "" || followed.Len() != afresh.Len() {
			t.Fatalf("step %d: %d pods, want %d (-counted afresh +followed):\n%s", step, followed.Len(), afresh.Len(), diff)
		}
	}
	if len(followed.touched.keys) > 0 {
		t.Errorf("%d pods are noted still", len(followed.touched.keys))
	}
}

func follow(t *testing.T, c *podCount, informer cache.SharedIndexInformer) {
	t.Helper()
	if err := c.countRound(informer); err != nil {
		t.Fatal(err)
	}
}

// asksOf is what pods are counted, by what they ask for.
func asksOf(c *podCount) map[fragmentation.PodRequest]int {
	asks := map[fragmentation.PodRequest]int{}
	for _, known := range c.seen {
		asks[known.asks]++
	}
	return asks
}

// TestNotedPodsAreBounded has pods come and go where nobody counts them, as on a replica that does not lead.
func TestNotedPodsAreBounded(t *testing.T) {
	informer := informers.NewSharedInformerFactory(nil, 0).Core().V1().Pods().Informer()
	var c podCount
	follow(t, &c, informer)
	for i := range 3 * maxTouched {
		if err := informer.GetIndexer().Add(podOf(fmt.Sprint("pod-", i), "a", "1")); err != nil {
			t.Fatal(err)
		}
		if noted := len(c.touched.keys); noted > maxTouched {
			t.Fatalf("%d pods are noted, %d at most", noted, maxTouched)
		}
	}
	follow(t, &c, informer)
	if c.Len() != 3*maxTouched {
		t.Errorf("%d pods are counted, want %d", c.Len(), 3*maxTouched)
	}
}

func TestAskOf(t *testing.T) {
	pod := st.MakePod().Label(names.LabelPool, "a").Annotation(names.AnnotationGPUTypes, "T4,A10").
		Req(map[corev1.ResourceName]string{"cpu": "2", "memory": "3Gi", names.ResourceGPU: "2"}).Obj()
	want := fragmentation.PodRequest{Pool: "a", Types: "A10,T4", Whole: 2, MilliCPU: 2000, MemoryMiB: 3072}
	if got := PodRequestOf(pod); got != want {
		t.Errorf("ask %+v, want %+v", got, want)
	}
	pod.Annotations[names.AnnotationGPUShare] = "none"
	if got := PodRequestOf(pod); !got.NeedsNoGPUs() {
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
	c.recountPods(pods[:len(pods)-1])
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.recountPods(pods[i%2 : len(pods)-1+i%2])
	}
}
