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
		"it has room again when another job ends": {quotas: []names.GPUQuota{quota(0, 8, "team")}, jobs: []batchv1.Job{limited("runs", 2*time.Hour)},
			pods: []corev1.Pod{on("n1", pod("team", "runs")), pod("team", "a", waited(time.Hour)), pod("other", "c")}, want: "a blocked 120, c 0"},
		"when a job of a namespace beside it ends": {quotas: []names.GPUQuota{quota(0, 8, "team", "other")}, jobs: []batchv1.Job{limited("runs", 2*time.Hour)},
			pods: []corev1.Pod{on("n1", pod("other", "runs")), pod("team", "a")}, want: "a blocked 120"},
		"not when one of another quota ends": {quotas: []names.GPUQuota{quota(0, 8, "team")}, jobs: []batchv1.Job{limited("x", 2*time.Hour)},
			pods: []corev1.Pod{on("n1", pod("team", "runs")), on("n2", pod("lab", "x")), pod("team", "a")}, want: "a blocked"},
		"one after the other": {quotas: []names.GPUQuota{quota(0, 8, "team")}, jobs: []batchv1.Job{limited("runs", 2*time.Hour), limited("a", 3*time.Hour)},
			pods: []corev1.Pod{on("n1", pod("team", "runs")), pod("team", "a", waited(time.Hour)), pod("team", "b")}, want: "a blocked 120, b blocked 180"},
		"its nodes are full until later": {quotas: []names.GPUQuota{quota(0, 8, "team")}, jobs: []batchv1.Job{limited("runs", 2*time.Hour), limited("x", 3*time.Hour)},
			pods: []corev1.Pod{on("n1", pod("team", "runs")), on("n1", pod("lab", "ever")), on("n2", pod("lab", "x")), on("n3", pod("lab", "y")), pod("team", "a")}, want: "a blocked 180"},
		"who waits for the one before is not blocked now": {quotas: []names.GPUQuota{quota(0, 8, "team")}, jobs: []batchv1.Job{limited("x", 2*time.Hour), limited("a", 5*time.Hour)},
			pods: []corev1.Pod{on("n1", pod("lab", "x")), on("n2", pod("lab", "y")), on("n3", pod("lab", "z")), pod("team", "a", waited(time.Hour)), pod("team", "b")}, want: "a 120, b 300"},
		"tasks beyond it leave room to others": {quotas: []names.GPUQuota{quota(0, 8, "team")},
			pods: []corev1.Pod{pod("team", "t", waited(time.Hour)), pod("team", "t", waited(time.Hour), func(p *corev1.Pod) { p.Name, p.UID = "t-1", "t-1" }),
				pod("team", "t", waited(time.Hour), func(p *corev1.Pod) { p.Name, p.UID = "t-2", "t-2" }), pod("lab", "x"), pod("lab", "y")}, want: "t 0, x 0, y 0"},
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

// TestEitherOfTwoTypesWillDo: who accepts two GPU types starts when the quota of one of them has room, be it the second.
func TestEitherOfTwoTypesWillDo(t *testing.T) {
	of := func(gpuType string) names.GPUQuota {
		return names.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: gpuType}, Spec: names.GPUQuotaSpec{Namespaces: []string{"team"}, Pool: "train", GPUType: gpuType, Max: ptr.To[int64](8)}}
	}
	typed := func(name, gpuType string) corev1.Node {
		out := node(name, "8")
		out.Labels[names.LabelGPUType] = gpuType
		return out
	}
	waits := asks("a", "8", 5, 0)
	waits.Annotations = map[string]string{names.AnnotationGPUTypes: "T4,A10"}
	for _, ends := range []string{"one", "two"} {
		objects := &snapshot.Snapshot{
			Nodes: []corev1.Node{typed("n1", "T4"), typed("n2", "A10")}, GPUQuotas: []names.GPUQuota{of("T4"), of("A10")},
			Pods: []corev1.Pod{on("n1", asks("one", "8", 5, 0)), on("n2", asks("two", "8", 5, 0)), waits}, Jobs: []batchv1.Job{limited(ends, 2*time.Hour)},
		}
		for i := range objects.Pods {
			objects.Pods[i].UID = types.UID(objects.Pods[i].Name)
		}
		if e := &Build(objects, nil, nil, t0).Entries[0]; said(e) != "blocked 120" {
			t.Errorf("when job %s ends it says %q", ends, said(e))
		}
	}
}

func said(e *Entry) string {
	out := "unknown"
	switch {
	case e.Never:
		out = "never"
	case e.Cause != "" && e.ETA != nil:
		out = "blocked " + strconv.Itoa(int(e.ETA.Sub(t0).Minutes()))
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
	objects.MarkUnread(snapshot.PartAllPods)
	if e := Build(objects, nil, nil, t0).Entries[0]; !strings.Contains(e.Message, "8 of 8 GPUs that the namespace may have are in use") {
		t.Errorf("it says %+v", e)
	}
}
