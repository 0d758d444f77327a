package queue

import (
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// TestTheLineKnowsGPUQuotas: who may have no more does not start as soon as nodes are free, and who is guaranteed what others borrow may
// start before they end.
func TestTheLineKnowsGPUQuotas(t *testing.T) {
	quota := func(least, most int64, namespaces ...string) names.GPUQuota {
		return names.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: "share"}, Spec: names.GPUQuotaSpec{Namespaces: namespaces, Pool: "train", Min: least, Max: ptr.To(most)}}
	}
	pod := func(namespace, job string, change ...func(*corev1.Pod)) corev1.Pod {
		out := asks(job, "8", 5, 0)
		out.Namespace, out.UID = namespace, types.UID(namespace+job)
		for _, c := range change {
			c(&out)
		}
		return out
	}
	waited := func(d time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(t0.Add(-d)) }
	}
	nodes := []corev1.Node{node("n1", "8"), node("n2", "8"), node("n3", "8")}
	typed := quota(0, 8, "team")
	typed.Spec.GPUType = "T4"
	tests := map[string]struct {
		quotas []names.GPUQuota
		pods   []corev1.Pod
		jobs   []batchv1.Job
		want   string // "job minutes-until-it-starts|blocked|never|reclaims", in order
	}{
		"none":                     {pods: []corev1.Pod{pod("team", "a")}, want: "a 0"},
		"there is enough":          {quotas: []names.GPUQuota{quota(0, 8, "team")}, pods: []corev1.Pod{pod("team", "a")}, want: "a 0"},
		"all is in use":            {quotas: []names.GPUQuota{quota(0, 8, "team")}, pods: []corev1.Pod{on("n1", pod("team", "runs")), pod("team", "a")}, want: "a blocked"},
		"too small":                {quotas: []names.GPUQuota{quota(0, 4, "team")}, pods: []corev1.Pod{pod("team", "a")}, want: "a never"},
		"of a namespace beside it": {quotas: []names.GPUQuota{quota(0, 8, "team", "other")}, pods: []corev1.Pod{on("n1", pod("other", "runs")), pod("team", "a")}, want: "a blocked"},
		"another namespace":        {quotas: []names.GPUQuota{quota(0, 8, "other")}, pods: []corev1.Pod{on("n1", pod("other", "runs")), pod("team", "a")}, want: "a 0"},
		"another type":             {quotas: []names.GPUQuota{typed}, pods: []corev1.Pod{on("n1", pod("team", "runs")), pod("team", "a")}, want: "a 0"},
		"the one before it takes the last": {quotas: []names.GPUQuota{quota(0, 8, "team")},
			pods: []corev1.Pod{pod("team", "a", waited(time.Hour)), pod("team", "b"), pod("other", "c")}, want: "a 0, c 0, b blocked"},
		"others are not kept waiting by it": {quotas: []names.GPUQuota{quota(0, 8, "team")},
			pods: []corev1.Pod{on("n1", pod("team", "runs")), pod("team", "a", waited(time.Hour)), pod("other", "c")}, want: "a blocked, c 0"},
		"it is guaranteed what others borrow": {quotas: []names.GPUQuota{quota(8, 8, "team")}, jobs: []batchv1.Job{limited("x", 2*time.Hour)},
			pods: []corev1.Pod{on("n1", pod("lab", "x")), on("n2", pod("lab", "y")), on("n3", pod("lab", "z")), pod("team", "a")}, want: "a 120 reclaims"},
		"it would borrow itself": {quotas: []names.GPUQuota{quota(4, 8, "team")}, jobs: []batchv1.Job{limited("x", 2*time.Hour)},
			pods: []corev1.Pod{on("n1", pod("lab", "x")), on("n2", pod("lab", "y")), on("n3", pod("lab", "z")), pod("team", "a")}, want: "a 120"},
		"a gang counts as a whole": {quotas: []names.GPUQuota{quota(0, 8, "team")}, want: "g never", pods: []corev1.Pod{
			pod("team", "g", func(p *corev1.Pod) { p.Labels[names.LabelPodGroup] = "g" }),
			pod("team", "g", func(p *corev1.Pod) { p.Labels[names.LabelPodGroup], p.Name, p.UID = "g", "g-y", "g-y" }),
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range Build(&snapshot.Snapshot{Nodes: nodes, Pods: tc.pods, Jobs: tc.jobs, GPUQuotas: tc.quotas}, nil, nil, t0).Entries {
				got = append(got, e.Name+" "+said(&e))
			}
			if line := strings.Join(got, ", "); line != tc.want {
				t.Errorf("the line is %q, want %q", line, tc.want)
			}
		})
	}
}

func said(e *Entry) string {
	out := "unknown"
	switch {
	case e.Never:
		out = "never"
	case e.Cause != "":
		out = "blocked"
	case e.ETA != nil:
		out = strconv.Itoa(int(e.ETA.Sub(t0).Minutes()))
	}
	if e.Reclaims {
		out += " reclaims"
	}
	return out
}

// TestWhoSeesNoPodsOfOthersIsToldToo, by what gpu-controller has counted.
func TestWhoSeesNoPodsOfOthersIsToldToo(t *testing.T) {
	q := names.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: "share", Generation: 1}, Status: names.GPUQuotaStatus{ObservedGeneration: 1, Used: 8},
		Spec: names.GPUQuotaSpec{Namespaces: []string{"team", "other"}, Pool: "train", Max: ptr.To[int64](8)}}
	objects := &snapshot.Snapshot{Pods: []corev1.Pod{asks("a", "8", 5, 0)}, GPUQuotas: []names.GPUQuota{q}}
	objects.Hide(snapshot.PartAllPods)
	if e := Build(objects, nil, nil, t0).Entries[0]; !strings.Contains(e.Message, "8 of 8 GPUs that the namespace may have are in use") {
		t.Errorf("it says %+v", e)
	}
}
