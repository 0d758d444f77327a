package coscheduling

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	pkggang "g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gang/follow"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// template is that of pods with 8 GPUs, as an API server gives it.
func template() map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
		"name": "main", "resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": "8"}},
	}}}}
}

func replicatedJob(name string, replicas int64, more ...any) map[string]any {
	job := map[string]any{"name": name, "replicas": replicas, "template": map[string]any{"spec": map[string]any{"template": template()}}}
	for i := 0; i < len(more); i += 2 {
		job[more[i].(string)] = more[i+1]
	}
	return job
}

// workload makes an object of a kind whose pods are recognized, or changes it, as the informer of the kind tells of it.
func (l *lab) workload(kind, name string, spec map[string]any) *follow.Workload {
	l.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetNamespace("ns")
	object.SetName(name)
	for i, of := range pkggang.Kinds() {
		if of.Name != kind {
			continue
		}
		kept := follow.KeepSizes(pkggang.Kinds()[i])(object)
		store := l.groups.Workloads[kind][0].Informer.GetIndexer()
		before, _, err := store.Get(kept)
		l.must(err)
		l.must(store.Add(kept))
		known, _ := before.(*follow.Workload)
		l.workloadChanged(known, kept)
		return kept.(*follow.Workload)
	}
	l.Fatalf("there is no kind %s", kind)
	return nil
}

// recognized makes a pod with 8 GPUs and the labels that an operator writes, of an owner of its own.
func (l *lab) recognized(name string, labels map[string]string, change ...func(*corev1.Pod)) *corev1.Pod {
	l.Helper()
	pod := fixture.Pod(name).GPUs(8).Obj()
	pod.Namespace, pod.UID, pod.Labels = "ns", types.UID(name), labels
	ownedBy(types.UID("owner-of-" + name))(pod)
	for _, label := range []string{"jobset.sigs.k8s.io/jobset-name", "leaderworkerset.sigs.k8s.io/name", "ray.io/cluster", "training.kubeflow.org/job-name"} {
		if object := labels[label]; object != "" {
			pod.OwnerReferences[0].Name = object + "-" + name
		}
	}
	for _, change := range change {
		change(pod)
	}
	l.must(l.pods.Add(pod))
	return pod
}

func ofJobSet(part string) map[string]string {
	return map[string]string{"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": part}
}

func ofReplica(index string) map[string]string {
	return map[string]string{"leaderworkerset.sigs.k8s.io/name": "vllm", "leaderworkerset.sigs.k8s.io/group-index": index}
}

// TestThePodsOfAWorkloadStartTogether whoever owns them: half of them has no place, and all of them have theirs at once.
func TestThePodsOfAWorkloadStartTogether(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, object string
		spec         map[string]any
		labels       []map[string]string // of each member
	}{
		"a JobSet of two jobs": {pkggang.KindJobSet, "train", map[string]any{"replicatedJobs": []any{replicatedJob("a", 1), replicatedJob("b", 2)}},
			[]map[string]string{ofJobSet("a"), ofJobSet("b"), ofJobSet("b")}},
		"a replica of a LeaderWorkerSet": {pkggang.KindLeaderWorkerSet, "vllm", map[string]any{"replicas": int64(2), "leaderWorkerTemplate": map[string]any{"size": int64(2), "workerTemplate": template()}},
			[]map[string]string{ofReplica("1"), ofReplica("1")}},
	} {
		t.Run(name, func(t *testing.T) {
			short := newLab(t, len(tc.labels)-1)
			short.workload(tc.kind, tc.object, tc.spec)
			for i, labels := range tc.labels {
				short.recognized(string(rune('a'+i)), labels)
			}
			if why, waits := short.try(short.pod("a")); waits || !strings.Contains(why, "all of the job") && !strings.Contains(why, "room for") {
				t.Errorf("with a node too few: waits %t, %q", waits, why)
			}
			l := newLab(t, len(tc.labels))
			l.workload(tc.kind, tc.object, tc.spec)
			for i, labels := range tc.labels {
				pod := l.recognized(string(rune('a'+i)), labels)
				if i+1 < len(tc.labels) {
					if why, waits := l.try(pod); waits || !strings.Contains(why, "cannot find enough sibling pods") {
						t.Errorf("%d of %d are there: waits %t, %q", i+1, len(tc.labels), waits, why)
					}
				}
			}
			for i := range tc.labels {
				if why, waits := l.try(l.pod(string(rune('a' + i)))); why != "" || waits != (i+1 < len(tc.labels)) {
					t.Errorf("member %d waits: %t, %q", i, waits, why)
				}
			}
			for _, held := range l.held {
				if !held.allowed {
					t.Errorf("%s is not let go", held.pod.Name)
				}
			}
		})
	}
}

// TestReplicasDoNotWaitForEachOther: each replica of a LeaderWorkerSet serves on its own.
func TestReplicasDoNotWaitForEachOther(t *testing.T) {
	l := newLab(t, 2)
	l.workload(pkggang.KindLeaderWorkerSet, "vllm", map[string]any{"replicas": int64(2), "leaderWorkerTemplate": map[string]any{"size": int64(2), "workerTemplate": template()}})
	for _, replica := range []string{"0", "1"} {
		for _, pod := range []string{"leader", "worker"} {
			l.recognized(pod+replica, ofReplica(replica))
		}
	}
	l.try(l.pod("leader0"))
	l.try(l.pod("worker0"))
	if len(l.held) != 1 || !l.held[0].allowed {
		t.Errorf("%d pods are held", len(l.held))
	}
}

func TestWhichGroupAPodIsIn(t *testing.T) {
	whole := map[string]any{"replicatedJobs": []any{replicatedJob("a", 1), replicatedJob("b", 2)}}
	inOrder := map[string]any{"replicatedJobs": []any{replicatedJob("a", 1), replicatedJob("b", 2, "dependsOn", []any{map[string]any{"name": "a"}})}}
	for name, tc := range map[string]struct {
		spec     map[string]any
		unserved bool
		part     string
		want     string
	}{
		"all start together":                  {spec: whole, part: "a", want: "JobSet/train"},
		"one after another":                   {spec: inOrder, part: "b", want: "JobSet/train/b"},
		"one after another, the first of one": {spec: inOrder, part: "a"},
		"the object is not known yet":         {part: "a", want: "JobSet/train"},
		"the cluster has no such kind":        {unserved: true, part: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1)
			if tc.unserved {
				l.groups.Workloads[pkggang.KindJobSet][0].Served = func() bool { return false }
			}
			if tc.spec != nil {
				l.workload(pkggang.KindJobSet, "train", tc.spec)
			}
			got, ok := l.groups.GroupOf(l.recognized("p", ofJobSet(tc.part)))
			if ok != (tc.want != "") || ok && got.Name != tc.want {
				t.Errorf("got %s, %t, want %q", got, ok, tc.want)
			}
			if group := l.groups.GetGroup(got); ok && (group == nil) != (tc.spec == nil) {
				t.Errorf("got the group %+v", group)
			}
		})
	}
}

// TestMembersAreTriedWhenTheirWorkloadIsKnown: it may be told of after its pods, and its operator may change how many there are.
func TestMembersAreTriedWhenTheirWorkloadIsKnown(t *testing.T) {
	both := map[string]any{"replicatedJobs": []any{replicatedJob("a", 1), replicatedJob("b", 1)}}
	inOrder := map[string]any{"replicatedJobs": []any{replicatedJob("a", 1), replicatedJob("b", 1, "dependsOn", []any{map[string]any{"name": "a"}})}}
	for name, tc := range map[string]struct {
		before, after map[string]any
		reason        string // why the pod is turned away before, of which there is one
		want          string
	}{
		"it comes":                         {after: both, reason: string(reason.GangUnknown.Text), want: "ns/p"},
		"it comes, and needs no gang":      {after: inOrder, reason: string(reason.GangUnknown.Text), want: "ns/p"},
		"it is made smaller":               {before: map[string]any{"replicatedJobs": []any{replicatedJob("a", 3)}}, after: both, reason: reason.GangTooFew.FormatText(1, 3), want: "ns/p"},
		"it says the same":                 {before: both, after: both, reason: reason.GangTooFew.FormatText(1, 2)},
		"it starts one by one from now on": {before: both, after: inOrder, reason: reason.GangTooFew.FormatText(1, 2), want: "ns/p"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			if tc.before != nil {
				l.workload(pkggang.KindJobSet, "train", tc.before)
			}
			pod := l.recognized("p", ofJobSet("a"))
			if why, waits := l.try(pod); waits || !strings.HasPrefix(why, tc.reason) {
				t.Errorf("before: waits %t, %q, want %q", waits, why, tc.reason)
			}
			l.forget()
			l.workload(pkggang.KindJobSet, "train", tc.after)
			if got := strings.Join(l.tried(), " "); got != tc.want {
				t.Errorf("tried: %q, want %q", got, tc.want)
			}
		})
	}
}

// TestAKindServedTwice: the two operators of MPIJobs have a version of their own each.
func TestAKindServedTwice(t *testing.T) {
	l := newLab(t, 1)
	second := l.groups.Workloads[pkggang.KindMPIJob][1]
	l.groups.Workloads[pkggang.KindMPIJob][0].Served = func() bool { return false }
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"mpiReplicaSpecs": map[string]any{
		"Launcher": map[string]any{}, "Worker": map[string]any{"replicas": int64(2), "template": template()},
	}}}}
	object.SetNamespace("ns")
	object.SetName("hpl")
	kept := follow.KeepSizes(pkggang.Kinds()[11])(object)
	l.must(second.Informer.GetIndexer().Add(kept))
	pod := l.recognized("p", map[string]string{"training.kubeflow.org/job-name": "hpl", "training.kubeflow.org/operator-name": "mpi-operator"})
	name, ok := l.groups.GroupOf(pod)
	if group := l.groups.GetGroup(name); !ok || group == nil || group.MinMember != 3 {
		t.Errorf("got %s, %t, %+v", name, ok, group)
	}
}

// TestAPodGroupOfKubernetes is one group for the pods that name it.
func TestAPodGroupOfKubernetes(t *testing.T) {
	l := newLab(t, 2)
	l.workload(pkggang.KindPodGroup, "native", map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(2)}}})
	names := func(pod *corev1.Pod) {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("native")}
	}
	first, second := l.recognized("a", nil, names), l.recognized("b", nil, names)
	if why, waits := l.try(first); why != "" || !waits {
		t.Errorf("the first waits: %t, %q", waits, why)
	}
	if why, waits := l.try(second); why != "" || waits || !l.held[0].allowed {
		t.Errorf("the second waits: %t, %q; the first is let go: %t", waits, why, l.held[0].allowed)
	}
}

// TestNothingIsKeptOfWorkloadsThatAreGone, whether the object goes before its pods or needs no gang any more, as when all but one of them have
// succeeded, and whether they had places or waited.
func TestNothingIsKeptOfWorkloadsThatAreGone(t *testing.T) {
	both := map[string]any{"replicatedJobs": []any{replicatedJob("a", 2)}}
	inOrder := map[string]any{"replicatedJobs": []any{replicatedJob("a", 2, "dependsOn", []any{map[string]any{"name": "z"}})}}
	for name, spec := range map[string]map[string]any{"all pods": both, "a part": inOrder} {
		for _, bound := range []bool{false, true} {
			for end, goes := range map[string]func(l *lab){
				"the object first": func(l *lab) {
					store := l.groups.Workloads[pkggang.KindJobSet][0].Informer.GetIndexer()
					l.must(store.Replace(nil, ""))
				},
				"it needs no gang": func(l *lab) {
					l.workload(pkggang.KindJobSet, "train", map[string]any{"replicatedJobs": []any{replicatedJob("a", 1)}})
				},
			} {
				l := newLab(t, 1)
				l.workload(pkggang.KindJobSet, "train", spec)
				pods := []*corev1.Pod{l.recognized("p", ofJobSet("a")), l.recognized("q", ofJobSet("a"))}
				for i, pod := range pods {
					if l.try(pod); bound {
						pod.Spec.NodeName = []string{"n0", "n1"}[i]
						l.podChanged(pod)
					}
				}
				if len(l.gangs.states) == 0 {
					t.Fatal("nothing is kept of them while they are there")
				}
				goes(l)
				for _, pod := range pods {
					l.must(l.pods.Delete(pod))
					l.podGone(pod)
				}
				if len(l.gangs.states)+len(l.gangs.places) > 0 {
					t.Errorf("%s, bound %t, %s: %v and %v are kept", name, bound, end, l.gangs.states, l.gangs.places)
				}
			}
		}
	}
}

// TestThoseThatWaitAreLetGoWhereNoGangIsNeeded any more.
func TestThoseThatWaitAreLetGoWhereNoGangIsNeeded(t *testing.T) {
	l := newLab(t, 2)
	l.workload(pkggang.KindJobSet, "train", map[string]any{"replicatedJobs": []any{replicatedJob("a", 2)}})
	first := l.recognized("p", ofJobSet("a"))
	l.recognized("q", ofJobSet("a"))
	if why, waits := l.try(first); !waits {
		t.Fatalf("it does not wait: %q", why)
	}
	l.workload(pkggang.KindJobSet, "train", map[string]any{"replicatedJobs": []any{replicatedJob("a", 1)}})
	if !l.held[0].allowed {
		t.Error("it waits on")
	}
}
