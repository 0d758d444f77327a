package gpuquota

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

var (
	began = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	h100  = Place{Pool: "h100", Type: "SXM"}
)

// job is a pod of a namespace that holds GPUs in pool h100, the later the higher its number.
func job(namespace string, number int, gpus int64) Holding {
	name := fmt.Sprintf("%s-%d", namespace, number)
	return Holding{Pod: types.UID(name), Unit: name, Namespace: namespace, At: h100, GPUs: gpus, Since: began.Add(time.Duration(number) * time.Minute)}
}

func quota(namespace string, least, most int64) Quota {
	return Quota{Name: namespace, Namespaces: []string{namespace}, Pool: "h100", Min: least, Max: most}
}

func TestReadingAQuota(t *testing.T) {
	spec := names.GPUQuotaSpec{Namespaces: []string{"a"}, Pool: "p", GPUType: "T4", Min: 8}
	want := Quota{Name: "q", Namespaces: []string{"a"}, Pool: "p", Type: "T4", Min: 8, Max: Unbounded}
	object := &names.GPUQuota{Spec: spec}
	object.Name = "q"
	if diff := cmp.Diff(want, QuotaOf(object)); diff != "" {
		t.Errorf("without a max (-want +got):\n%s", diff)
	}
	object.Spec.Max, object.Spec.Min = ptr.To[int64](-1), -8 // which the API server lets nobody write
	want.Min, want.Max = 0, 0
	if diff := cmp.Diff(want, QuotaOf(object)); diff != "" {
		t.Errorf("with amounts below zero (-want +got):\n%s", diff)
	}
}

func TestWhoHasTooMuch(t *testing.T) {
	whole := quota("a", 8, 16)
	typed := Quota{Name: "sxm", Namespaces: []string{"a", "b"}, Pool: "h100", Type: "SXM", Max: 12}
	tests := map[string]struct {
		held []Holding
		ask  Ask
		want map[string]Excess
	}{
		"there is enough":        {ask: Ask{Namespace: "a", Pool: "h100", GPUs: 12}},
		"nobody bounds it":       {ask: Ask{Namespace: "c", Pool: "h100", GPUs: 99}},
		"another pool":           {ask: Ask{Namespace: "a", Pool: "t4", GPUs: 99}},
		"it asks for none":       {held: []Holding{job("a", 1, 99)}, ask: Ask{Namespace: "a", Pool: "h100"}},
		"one of a type too many": {held: []Holding{job("b", 1, 8)}, ask: Ask{Namespace: "a", Pool: "h100", GPUs: 5}, want: map[string]Excess{"SXM": {"sxm", h100, 5, 8, 12}}},
		"more than there can be": {ask: Ask{Namespace: "a", Pool: "h100", GPUs: 1<<63 - 1}, want: map[string]Excess{
			"": {"a", Place{Pool: "h100"}, 1<<63 - 1, 0, 16}, "SXM": {"sxm", h100, 1<<63 - 1, 0, 12},
		}},
		"what is kept for others counts": {held: []Holding{waits(job("a", 1, 12))}, ask: Ask{Namespace: "a", Pool: "h100", GPUs: 5}, want: map[string]Excess{
			"": {"a", Place{Pool: "h100"}, 5, 12, 16}, "SXM": {"sxm", h100, 5, 12, 12},
		}},
		"what is kept for itself does not": {held: []Holding{waits(job("a", 1, 12))}, ask: Ask{Namespace: "a", Pool: "h100", GPUs: 12, Pods: []types.UID{"a-1"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := NewAccount([]Quota{whole, typed})
			for _, h := range tc.held {
				a.SetHolding(h)
			}
			if diff := cmp.Diff(tc.want, a.ExceededQuotas(&tc.ask)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func waits(h Holding) Holding { h.Waits = true; return h }

func TestWhoLeavesForWhom(t *testing.T) {
	high := job("a", 9, 8)
	high.Priority = 1
	gang := []Holding{job("a", 1, 8), job("a", 2, 8)}
	gang[0].Unit, gang[1].Unit = "gang", "gang"
	tests := map[string]struct {
		held []Holding
		gpus int64
		want map[types.UID]Standing
	}{
		"the first is guaranteed, the second borrows": {held: []Holding{job("a", 1, 8), job("a", 2, 8)}, gpus: 8,
			want: map[types.UID]Standing{"a-1": Protected, "a-2": Yields}},
		"the one of high priority is guaranteed": {held: []Holding{job("a", 1, 8), high}, gpus: 8,
			want: map[types.UID]Standing{"a-1": Yields, "a-9": Protected}},
		"a gang borrows as a whole": {held: append(gang, job("a", 3, 8)), gpus: 8,
			want: map[types.UID]Standing{"a-1": Yields, "a-2": Yields, "a-3": Protected}},
		"who has no quota borrows": {held: []Holding{job("c", 1, 8)}, gpus: 8, want: map[types.UID]Standing{"c-1": Yields}},
		"one's own go by priority": {held: []Holding{job("b", 1, 8)}, gpus: 8, want: map[types.UID]Standing{"b-1": Neutral}},
		"more than is guaranteed":  {held: []Holding{job("a", 1, 8), job("a", 2, 8)}, gpus: 17, want: map[types.UID]Standing{"a-1": Protected, "a-2": Neutral}},
		"what is kept counts for what it would have": {held: []Holding{job("a", 1, 8), job("a", 2, 8), waits(job("b", 1, 12))}, gpus: 8,
			want: map[types.UID]Standing{"a-2": Neutral, "b-1": Neutral}},
		"who holds nothing": {gpus: 8, want: map[types.UID]Standing{"a-1": Neutral}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := NewAccount([]Quota{quota("a", 8, Unbounded), quota("b", 16, Unbounded)})
			for _, h := range tc.held {
				a.SetHolding(h)
			}
			ask := Ask{Namespace: "b", Pool: "h100", GPUs: tc.gpus}
			for pod, want := range tc.want {
				if got := a.StandingOf(pod, &ask); got != want {
					t.Errorf("%s is %d, want %d", pod, got, want)
				}
			}
		})
	}
}

// TestNothingIsSaidOfPoolsWithoutAMin, where priorities alone decide.
func TestNothingIsSaidOfPoolsWithoutAMin(t *testing.T) {
	a := NewAccount([]Quota{quota("a", 0, 8)})
	a.SetHolding(job("a", 1, 8))
	a.SetHolding(waits(job("c", 1, 8)))
	ask := Ask{Namespace: "b", Pool: "h100", GPUs: 1}
	if got := a.StandingOf("a-1", &ask); got != Neutral {
		t.Errorf("a pod is %d, want %d", got, Neutral)
	}
	if a.HasNominees("h100") {
		t.Error("GPUs are kept in a pool in which nobody is guaranteed any")
	}
}

// TestNobodyHoldsLessThanNothing: pods that name a node themselves may ask for what no sum holds.
func TestNobodyHoldsLessThanNothing(t *testing.T) {
	var pods []corev1.Pod
	for i := range 3 {
		pod := fixture.Pod(fmt.Sprint("p", i)).GPUs(1 << 62).Obj()
		pod.Namespace, pod.UID, pod.Spec.NodeName = "a", types.UID(pod.Name), "no-such-node"
		pods = append(pods, *pod)
	}
	own := quota("a", 8, 16)
	own.Pool = names.DefaultPool
	account := AccountOf([]Quota{own}, nil, pods)
	ask := &Ask{Namespace: "a", Pool: names.DefaultPool, GPUs: 8}
	if account.ExceededQuotas(ask) == nil || account.IsEntitled(ask) {
		t.Errorf("with %d of 16 in use it may have 8 more: %v, and others leave for that: %v", account.QuotaUses()[0].Used, account.ExceededQuotas(ask) == nil, account.IsEntitled(ask))
	}
}
