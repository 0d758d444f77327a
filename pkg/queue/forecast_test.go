package queue

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/forecast"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/survival"
)

// pastOf has jobs of a user that ran for each minute from one to another.
func pastOf(user string, from, to int) *survival.History {
	h := &survival.History{}
	for m := from; m <= to; m++ {
		h.AddRun(survival.Job{Namespace: "team", User: user, Pool: "train", GPUs: 8}, time.Duration(m)*time.Minute)
	}
	return h
}

// anHourIn is a pod that runs for an hour already.
func anHourIn(pod corev1.Pod) corev1.Pod { return began(-time.Hour, pod) }

// submitted is the Job of a user.
func submitted(job, user string) batchv1.Job {
	return batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: job, Namespace: "team", UID: types.UID(job), Annotations: map[string]string{names.AnnotationUser: user},
		Labels: map[string]string{names.LabelJob: job, names.LabelJobType: "training"},
	}}
}

// quotaOf allows a namespace so many GPUs of the pool.
func quotaOf(most int64, namespace string) names.GPUQuota {
	return names.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: "share"}, Spec: names.GPUQuotaSpec{Namespaces: []string{namespace}, Pool: "train", Max: ptr.To(most)}}
}

// TestOutlook: between which minutes jobs start, "" where nothing is said, by jobs that run for 61 to 160 minutes.
func TestOutlook(t *testing.T) {
	n1, n2 := node("n1", "8"), node("n2", "8")
	runs := anHourIn(on("n1", asks("runs", "8", 5, 0)))
	refused := func(pod corev1.Pod) corev1.Pod {
		return refusedWith("0/1 nodes are available: 1 Insufficient cpu.", pod)
	}
	keeps := func(node string, to time.Duration) []names.GPUReservation {
		return []names.GPUReservation{{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: names.GPUReservationSpec{
			Nodes: []string{node}, From: metav1.NewTime(t0.Add(-time.Hour)), To: metav1.NewTime(t0.Add(to))}}}
	}
	gang := []corev1.Pod{named("g-0", member("g", "8")), named("g-1", member("g", "8"))}
	tests := map[string]struct {
		objects *snapshot.Snapshot
		past    *survival.History
		want    []string
	}{
		"it waits for one":             {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Pods: []corev1.Pod{runs, asks("a", "8", 5, 0)}}, want: []string{"5 to 95"}},
		"nothing is known of the past": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Pods: []corev1.Pod{runs, asks("a", "8", 5, 0)}}, past: &survival.History{}, want: []string{""}},
		"too little is known of those that have run for as long": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Pods: []corev1.Pod{runs, asks("a", "8", 5, 0)}},
			past: pastOf("", 1, 60), want: []string{""}},
		"what runs has a limit": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Jobs: []batchv1.Job{limited("runs", 30*time.Minute)},
			Pods: []corev1.Pod{runs, asks("a", "8", 5, 0)}}, want: []string{"5 to 30"}},
		"its pod has one": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Pods: []corev1.Pod{change(runs, func(p *corev1.Pod) {
			p.Spec.ActiveDeadlineSeconds = ptr.To[int64](80 * 60)
		}), asks("a", "8", 5, 0)}}, want: []string{"5 to 20"}},
		"two in line": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Pods: []corev1.Pod{runs, asks("a", "8", 5, time.Minute), asks("b", "8", 5, 0)}},
			want: []string{"5 to 95", "82 to 231"}},
		"there is room": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1, n2}, Pods: []corev1.Pod{runs, asks("a", "8", 5, time.Minute), asks("b", "8", 5, 0)}},
			want: []string{"", "5 to 95"}},
		"who fits beside the first starts now": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Pods: []corev1.Pod{
			anHourIn(on("n1", asks("runs", "6", 5, 0))), asks("a", "8", 5, time.Minute), task(asks("b", "2", 5, 0))}}, want: []string{"30 to 95", "0 to 0"}},
		"a gang, which others get past": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1, n2}, Pods: append([]corev1.Pod{runs, anHourIn(on("n2", asks("other", "8", 5, 0)))}, gang...)},
			want: []string{""}},
		"behind a gang": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1, n2}, Pods: append([]corev1.Pod{runs, anHourIn(on("n2", asks("other", "8", 5, 0))), asks("z", "8", 5, 0)}, gang...)},
			want: []string{"", "2 to 75"}},
		"a gang of one": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Pods: []corev1.Pod{runs, member("a", "8")}}, want: []string{"5 to 95"}},
		"the pods of a job that runs end together": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1, n2}, Pods: []corev1.Pod{runs,
			anHourIn(named("runs-1", on("n2", asks("runs", "8", 5, 0)))), asks("a", "8", 5, 0), asks("b", "8", 5, 0)}}, want: []string{"5 to 95", "5 to 95"}},
		"a part of a GPU": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Pods: []corev1.Pod{runs, change(asks("a", "1", 5, 0), func(p *corev1.Pod) {
			list := corev1.ResourceList{names.ResourceSharedGPU: resource.MustParse("1")}
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
		})}}, want: []string{""}},
		"a reservation keeps the node":      {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, GPUReservations: keeps("n1", time.Hour), Pods: []corev1.Pod{runs, asks("a", "8", 5, 0)}}, want: []string{""}},
		"one did":                           {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, GPUReservations: keeps("n1", 0), Pods: []corev1.Pod{runs, asks("a", "8", 5, 0)}}, want: []string{"5 to 95"}},
		"one keeps a node of another pool":  {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, GPUReservations: keeps("n9", time.Hour), Pods: []corev1.Pod{runs, asks("a", "8", 5, 0)}}, want: []string{"5 to 95"}},
		"it never starts":                   {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Pods: []corev1.Pod{runs, asks("a", "9", 5, 0)}}, want: []string{""}},
		"nothing says how long the pod ran": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Pods: []corev1.Pod{on("n1", asks("runs", "8", 5, 0)), asks("a", "8", 5, 0)}}, want: []string{"65 to 155"}},
		"somebody else holds the node for ever": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Pods: []corev1.Pod{change(runs, func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: ptr.To(true)}}
		}), asks("a", "8", 5, 0)}}, want: []string{""}},
		"there is room that it is refused": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Pods: []corev1.Pod{
			anHourIn(on("n1", asks("runs", "4", 5, 0))), asks("a", "8", 5, time.Minute), refused(asks("b", "4", 5, 0))}}, want: []string{"5 to 95", ""}},
		"pods that take turns": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Jobs: []batchv1.Job{{
			ObjectMeta: metav1.ObjectMeta{UID: "runs"}, Status: batchv1.JobStatus{Succeeded: 3, StartTime: &metav1.Time{Time: t0.Add(-110 * time.Minute)}},
		}}, Pods: []corev1.Pod{task(anHourIn(on("n1", asks("runs", "8", 9, 0)))), asks("a", "8", 5, 0)}}, want: []string{"3 to 47"}},
		"its quota is used up": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1, n2}, GPUQuotas: []names.GPUQuota{quotaOf(8, "team")}, Pods: []corev1.Pod{runs, asks("a", "8", 5, 0)}},
			want: []string{"5 to 95"}},
		"that of the one before it is": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1, n2}, GPUQuotas: []names.GPUQuota{quotaOf(8, "team")}, Pods: []corev1.Pod{
			runs, asks("a", "8", 5, time.Minute), change(asks("b", "8", 5, 0), func(p *corev1.Pod) { p.Namespace = "other" })}}, want: []string{"5 to 95", ""}},
		"two wait for a quota": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1, n2}, GPUQuotas: []names.GPUQuota{quotaOf(8, "team")}, Pods: []corev1.Pod{
			runs, asks("a", "8", 5, time.Minute), asks("b", "8", 5, 0)}}, want: []string{"5 to 95", "82 to 231"}},
		"somebody else ends of whom no quota knows": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1, n2}, GPUQuotas: []names.GPUQuota{quotaOf(8, "team")}, Pods: []corev1.Pod{
			change(on("n1", asks("ever", "8", 5, 0)), func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: ptr.To(true)}}
			}), asks("a", "8", 5, 0)}}, want: []string{""}},
		"a quota allows no more at any time": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, GPUQuotas: []names.GPUQuota{quotaOf(4, "team")}, Pods: []corev1.Pod{runs, asks("a", "8", 5, 0)}},
			want: []string{""}},
		"its own user runs for longer": {objects: &snapshot.Snapshot{Nodes: []corev1.Node{n1}, Jobs: []batchv1.Job{submitted("runs", "ada")}, Pods: []corev1.Pod{runs, asks("a", "8", 5, 0)}},
			past: func() *survival.History {
				h := pastOf("ada", 61, 160)
				for range 3 {
					for m := range 300 {
						h.AddRun(survival.Job{Namespace: "team", User: "bob", Pool: "train", GPUs: 8}, time.Duration(1000+m)*time.Minute)
					}
				}
				return h
			}(), want: []string{"5 to 95"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.past == nil {
				tc.past = pastOf("", 61, 160)
			}
			q := Build(tc.objects, nil, nil, t0)
			q.ApplyEstimates(q.EstimateStarts(tc.objects, tc.past, t0), t0)
			var got, want [][]int
			for _, e := range q.Entries {
				said := []int{}
				if e.Latest != nil {
					said = append(said, int(e.Earliest.Sub(t0).Minutes()), int(e.Latest.Sub(t0).Minutes()))
				}
				if (e.Latest == nil) != (e.Confidence == 0) || e.Latest != nil && e.Confidence != forecast.Confidence {
					t.Errorf("%s: the confidence is %v", e.Name, e.Confidence)
				}
				got = append(got, said)
			}
			for _, text := range tc.want {
				said := []int{}
				if from, to, ok := strings.Cut(text, " to "); ok {
					for _, number := range []string{from, to} {
						minutes, _ := strconv.Atoi(number) // these are numbers
						said = append(said, minutes)
					}
				}
				want = append(want, said)
			}
			near := cmp.Comparer(func(a, b int) bool { return max(a-b, b-a) <= max(2, max(a, b)/10) }) // of a hundred plays
			if diff := cmp.Diff(want, got, near); diff != "" {
				t.Errorf("they start (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnOutlookGrowsOld: what was said some time ago is told of those that still wait, and not of what is over.
func TestAnOutlookGrowsOld(t *testing.T) {
	objects := &snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{anHourIn(on("n1", asks("runs", "8", 5, 0))), asks("a", "8", 5, 0)}}
	q := Build(objects, nil, nil, t0)
	outlook := q.EstimateStarts(objects, pastOf("", 61, 160), t0)
	for after, want := range map[time.Duration]bool{0: true, 10 * time.Minute: true, 3 * time.Hour: false} {
		now := t0.Add(after)
		line := Build(objects, nil, nil, now)
		line.ApplyEstimates(outlook, now)
		if e := line.Entries[0]; (e.Latest != nil) != want || want && e.Earliest.Before(now) {
			t.Errorf("after %s it starts between %v and %v", after, e.Earliest, e.Latest)
		}
	}
	line := Build(&snapshot.Snapshot{Nodes: objects.Nodes, Pods: objects.Pods[1:]}, nil, nil, t0)
	line.ApplyEstimates(outlook, t0)
	if e := line.Entries[0]; e.Latest != nil || e.ETA == nil {
		t.Errorf("it starts now, and between %v and %v", e.Earliest, e.Latest)
	}
	if got := (&Queue{}).EstimateStarts(objects, nil, t0); len(got) != 0 {
		t.Errorf("of a queue without jobs and past: %v", got)
	}
}

// TestManyKindsOfJobsCostTheOthersNothing: whoever is before them in line is told when it starts, as are the first of them.
func TestManyKindsOfJobsCostTheOthersNothing(t *testing.T) {
	objects := &snapshot.Snapshot{}
	for i := range 20 {
		name := fmt.Sprint("n", i)
		machine := node(name, "8")
		machine.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("64")
		objects.Nodes = append(objects.Nodes, machine)
		for j := range 8 {
			objects.Pods = append(objects.Pods, anHourIn(on(name, asks(fmt.Sprintf("runs-%d-%d", i, j), "1", 5, 0))))
		}
	}
	objects.Pods = append(objects.Pods, asks("first", "8", 5, time.Hour))
	for i := range 300 {
		objects.Pods = append(objects.Pods, change(asks(fmt.Sprintf("kind-%03d", i), "8", 5, time.Duration(300-i)*time.Second), func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(i+1), resource.DecimalSI)
		}))
	}
	q := Build(objects, nil, nil, t0)
	q.ApplyEstimates(q.EstimateStarts(objects, pastOf("", 61, 160), t0), t0)
	for i := range q.Entries {
		if e := &q.Entries[i]; (e.Latest != nil) != (i < maxShapes) {
			t.Errorf("number %d, %s, starts by %v", i+1, e.Name, e.Latest)
		}
	}
	if len(q.Entries) != 301 || q.Entries[0].Name != "first" {
		t.Errorf("%d in line, the first is %s", len(q.Entries), q.Entries[0].Name)
	}
}

// TestAllLinesShareABudget: of more pools a forecast takes no longer, and each line has a part.
func TestAllLinesShareABudget(t *testing.T) {
	for _, lines := range []int{1, 2, 7, 100} {
		if of := forecastBudget(lines); of <= 0 || 2*lines*of > forecast.Budget {
			t.Errorf("two forecasts of each of %d lines may cost %d each, %d in all", lines, of, forecast.Budget)
		}
	}
	waits := change(asks("b", "8", 5, 0), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{names.LabelPool: "other"} })
	q := Build(&snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{
		anHourIn(on("n1", asks("runs", "8", 5, 0))), asks("a", "8", 5, 0), asks("c", "8", 5, 0), waits}}, nil, nil, t0)
	if lines := q.uncertainEntries(t0); len(lines) != 1 || len(lines[0]) != 2 {
		t.Errorf("the lines are %v, want that of one pool: the other has no nodes", lines)
	}
}

// TestForesightIsMadeAnewFromTimeToTime, and not whenever the queue is read.
func TestForesightIsMadeAnewFromTimeToTime(t *testing.T) {
	objects := &snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{anHourIn(on("n1", asks("runs", "8", 5, 0))), asks("a", "8", 5, 0)}}
	foreseen := NewEstimateCache(pastOf("", 61, 160))
	for _, step := range []struct {
		after time.Duration
		known int
	}{{0, 1}, {estimateLifetime - time.Second, 1}, {estimateLifetime, 2}, {estimateLifetime + time.Second, 2}} {
		objects.Now = t0.Add(step.after)
		q := Build(objects, nil, nil, objects.Now)
		if got := foreseen.estimatesFor(&q, objects); len(got) != step.known {
			t.Errorf("after %s it is foreseen of %d, want %d", step.after, len(got), step.known)
		}
		if step.after == 0 {
			objects.Pods = append(objects.Pods, asks("b", "8", 5, 0))
		}
	}
	if got := NewEstimateCache(nil).estimatesFor(&Queue{}, objects); len(got) != 0 {
		t.Errorf("without a past %v is foreseen", got)
	}
}

// BenchmarkOutlook has a line of a thousand jobs for a thousand nodes with eight jobs each.
func BenchmarkOutlook(b *testing.B) {
	objects := &snapshot.Snapshot{}
	for i := range 1000 {
		objects.Nodes = append(objects.Nodes, node(fmt.Sprint("n", i), "8"))
		for j := range 8 {
			objects.Pods = append(objects.Pods, anHourIn(on(fmt.Sprint("n", i), asks(fmt.Sprintf("r%d-%d", i, j), "1", 5, 0))))
		}
		objects.Pods = append(objects.Pods, asks(fmt.Sprint("w", i), fmt.Sprint(1<<(i%4)), 5, 0))
	}
	past := pastOf("", 1, 1000)
	b.Run("build", func(b *testing.B) {
		for b.Loop() {
			Build(objects, nil, nil, t0)
		}
	})
	b.Run("outlook", func(b *testing.B) {
		q := Build(objects, nil, nil, t0)
		for b.Loop() {
			q.EstimateStarts(objects, past, t0)
		}
	})
}
