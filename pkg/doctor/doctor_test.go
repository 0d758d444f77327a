package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func node(name, gpus string, labels map[string]string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{names.ResourceGPU: resource.MustParse(gpus)}, Capacity: corev1.ResourceList{names.ResourceGPU: resource.MustParse(gpus)},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func a100(name string) corev1.Node {
	return node(name, "8", map[string]string{names.LabelGPUType: "A100-80G", names.LabelPool: "training"})
}

// placed is a pod of a scheduler on a node.
func placed(node string, gpus int64, scheduler string) corev1.Pod {
	pod := fixture.Pod(node + "-" + scheduler).GPUs(gpus).Obj()
	pod.Namespace, pod.Spec.NodeName, pod.Spec.SchedulerName = "team", node, scheduler
	return *pod
}

// waitingSince is a pod without a node that was made at a time, for a scheduler.
func waitingSince(made time.Time, scheduler string) corev1.Pod {
	pod := placed("", 4, scheduler)
	pod.CreationTimestamp, pod.Status.Phase = metav1.NewTime(made), corev1.PodPending
	return pod
}

// jobSince is a Job that was made at a time, and that no controller has seen.
func jobSince(made time.Time) batchv1.Job {
	return batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "old", CreationTimestamp: metav1.NewTime(made)}}
}

// healthy are the facts of a cluster in which nothing is wrong.
func healthy() Facts {
	var classes []schedulingv1.PriorityClass
	for _, name := range []string{names.PriorityClassHigh, names.PriorityClassMedium, names.PriorityClassLow} {
		classes = append(classes, schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return Facts{
		Snapshot: snapshot.Snapshot{
			Now: t0, ClockTold: true, PriorityClasses: classes,
			Lease: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To[int32](3), RenewTime: &metav1.MicroTime{Time: t0},
			}},
			Nodes:      []corev1.Node{a100("n1"), a100("n2")},
			Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "team"}}},
		},
		Server: "v1.35.4", Local: t0.Add(time.Second), Groups: []string{groupPodGroup},
		Rights:   []Right{{For: "submit jobs", Allowed: true}, {For: "see nodes", All: true, Allowed: true}},
		Policies: []string{fencePolicy}, Bindings: []string{fencePolicy}, Namespace: "team",
	}
}

func TestExamine(t *testing.T) {
	type finding struct {
		Status Status
		Text   string // a part of it
	}
	tests := map[string]struct {
		change func(*Facts)
		// want are the checks that are not ok.
		want map[string]finding
	}{
		"nothing is wrong": {change: func(*Facts) {}},
		"no scheduler was ever there": {
			change: func(f *Facts) { f.Lease = nil },
			want:   map[string]finding{"scheduler": {Failed, "has ever led"}},
		},
		"the scheduler has died": {
			change: func(f *Facts) { f.Lease.Spec.RenewTime.Time = t0.Add(-time.Minute) },
			want:   map[string]finding{"scheduler": {Failed, "last heard of 1m0s ago"}},
		},
		"the scheduler has died eight seconds ago, its lease lasts for three": {
			change: func(f *Facts) { f.Lease.Spec.RenewTime.Time = t0.Add(-8 * time.Second) },
			want:   map[string]finding{"scheduler": {Failed, "last heard of 8s ago"}},
		},
		"the lease has run out, a standby may take over": {
			change: func(f *Facts) { f.Lease.Spec.RenewTime.Time = t0.Add(-4 * time.Second) },
			want:   map[string]finding{"scheduler": {Warning, "last heard of 4s ago, and its lease of 3s has run out"}},
		},
		"the scheduler has resigned": {
			change: func(f *Facts) { f.Lease.Spec.HolderIdentity = ptr.To("") },
			want:   map[string]finding{"scheduler": {Failed, "no replica leads"}},
		},
		"the controller has died": {
			change: func(f *Facts) {
				f.Controller = f.Lease.DeepCopy()
				f.Controller.Spec.RenewTime.Time = t0.Add(-time.Minute)
			},
			want: map[string]finding{"gpu-controller": {Warning, "last heard of 1m0s ago: nobody replaces disrupted pods"}},
		},
		"the controller has resigned": {
			change: func(f *Facts) {
				f.Controller = f.Lease.DeepCopy()
				f.Controller.Spec.HolderIdentity = ptr.To("")
			},
			want: map[string]finding{"gpu-controller": {Warning, "no replica leads"}},
		},
		"the controller leads":                   {change: func(f *Facts) { f.Controller = f.Lease }},
		"the controller's lease is not readable": {change: func(f *Facts) { f.NoController = true }},
		"the scheduler may not read reservations": {
			change: func(f *Facts) { f.SchedulerLacksRights = true },
			want:   map[string]finding{"reservations": {Warning, "keeps no node for anybody"}},
		},
		"our clock is wrong, the scheduler is not blamed for it": {
			change: func(f *Facts) { f.Local = t0.Add(time.Hour) },
			want:   map[string]finding{"clock": {Warning, "1h0m0s apart"}},
		},
		"a priority class is missing": {
			change: func(f *Facts) { f.PriorityClasses = f.PriorityClasses[:2] },
			want:   map[string]finding{"priority classes": {Failed, "missing: g8s-low"}},
		},
		"the user may not submit": {
			change: func(f *Facts) {
				f.Rights = []Right{{For: "submit jobs", Verb: "create", Kind: "jobs"}, {For: "see nodes", Verb: "list", Kind: "nodes", All: true}}
			},
			want: map[string]finding{
				"your rights in the namespace": {Failed, "submit jobs (create jobs)"}, "your rights in the cluster": {Warning, "see nodes"},
			},
		},
		"a policy without its binding does nothing": {
			change: func(f *Facts) { f.Bindings = nil },
			want:   map[string]finding{"fence": {Warning, "not installed"}},
		},
		"the PodGroup CRD is missing": {
			change: func(f *Facts) { f.Groups = nil },
			want:   map[string]finding{"PodGroup CRD": {Warning, "several nodes"}},
		},
		"a device plugin is down": {
			change: func(f *Facts) {
				f.Nodes = append(f.Nodes, node("n3", "0", map[string]string{names.LabelNVIDIACount: "8"}), node("cpu", "0", nil))
			},
			want: map[string]finding{"device plugin": {Failed, "offering none: n3"}},
		},
		"the agent is down": {
			change: func(f *Facts) {
				away := node("n3", "0", map[string]string{names.LabelNVIDIACount: "8"})
				away.Annotations = map[string]string{names.AnnotationInventory: fixture.Cards("n3", 1<<10).Annotation(t)}
				away.Status.Conditions = append(away.Status.Conditions, corev1.NodeCondition{Type: names.ConditionAgentReady, Status: corev1.ConditionTrue})
				f.Nodes = append(f.Nodes, away)
			},
			want: map[string]finding{"device plugin": {Failed, "gpu-agent gives out no GPUs: n3"}},
		},
		"kubelet asks another device plugin than the agent": {
			change: func(f *Facts) {
				beside := node("n3", "8", map[string]string{names.LabelNVIDIACount: "8", names.LabelGPUType: "A100-80G"})
				beside.Status.Conditions = append(beside.Status.Conditions, corev1.NodeCondition{
					Type: names.ConditionAgentReady, Status: corev1.ConditionFalse, Reason: names.ReasonOtherPlugin, Message: "kubelet asks nvidia-gpu.sock",
				})
				f.Nodes = append(f.Nodes, beside)
			},
			want: map[string]finding{"device plugin": {Failed, "gpu-agent gives out no GPUs: n3; n3 says kubelet asks nvidia-gpu.sock"}},
		},
		"there are no GPUs at all": {
			change: func(f *Facts) { f.Nodes = []corev1.Node{node("cpu", "0", nil)} },
			want:   map[string]finding{"device plugin": {Failed, "no node offers"}},
		},
		"types that differ in case, or by a letter": {
			change: func(f *Facts) {
				f.Nodes = append(f.Nodes,
					node("n3", "8", map[string]string{names.LabelGPUType: "a100-80g", names.LabelPool: "trainin"}))
			},
			want: map[string]finding{"labels of nodes": {Warning, `GPU type "a100-80g" may mean "A100-80G" (n3); pool "trainin" may mean "training" (n3)`}},
		},
		"types that differ by a number are two": {
			change: func(f *Facts) {
				f.Nodes = append(f.Nodes, node("n3", "8", map[string]string{names.LabelGPUType: "A100-40G", names.LabelPool: "training"}))
			},
		},
		"models that a letter tells apart are two": {
			change: func(f *Facts) {
				f.Nodes = append(f.Nodes,
					node("n3", "8", map[string]string{names.LabelAccelerator: "nvidia-tesla-a100", names.LabelPool: "team-a"}),
					node("n4", "8", map[string]string{names.LabelAccelerator: "nvidia-tesla-v100", names.LabelPool: "team-b"}),
					node("n5", "8", map[string]string{names.LabelAccelerator: "nvidia-tesla-v100", names.LabelPool: "team-b"}))
			},
		},
		"what was measured is no slip": {
			change: func(f *Facts) {
				f.Nodes = append(f.Nodes, node("n3", "8", map[string]string{names.LabelNVIDIAProduct: "a100-80g", names.LabelPool: "training"}))
			},
		},
		"a node is down": {
			change: func(f *Facts) { f.Nodes[1].Status.Conditions = nil },
			want:   map[string]finding{"nodes": {Warning, "1 of 2 nodes with GPUs are not ready: n2"}},
		},
		"all nodes are down": {
			change: func(f *Facts) { f.Nodes[0].Status.Conditions, f.Nodes[1].Status.Conditions = nil, nil },
			want: map[string]finding{
				"nodes": {Failed, "2 of 2 nodes with GPUs are not ready: n1, n2"}, "pools": {Warning, "pool training: 2 of 2 nodes not ready"},
			},
		},
		"a pool is cordoned": {
			change: func(f *Facts) { f.Nodes[0].Spec.Unschedulable, f.Nodes[1].Spec.Unschedulable = true, true },
			want:   map[string]finding{"pools": {Warning, "no job starts in pool training: 2 of 2 nodes cordoned"}},
		},
		"half a pool is cordoned, and half of it has a taint": {
			change: func(f *Facts) {
				f.Nodes[0].Spec.Unschedulable = true
				f.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "owner", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
			},
			want: map[string]finding{"pools": {Warning, "1 of 2 nodes cordoned, 1 of 2 nodes with the taint owner=x:NoSchedule"}},
		},
		"a pool with a node that takes jobs is open": {change: func(f *Facts) { f.Nodes[0].Spec.Unschedulable = true }},
		"GPUs are not healthy": {
			change: func(f *Facts) {
				f.Nodes[1].Annotations = map[string]string{names.AnnotationInventory: fixture.Cards("n2", 1, 1, 1).Unhealthy(0, 2).Annotation(t)}
			},
			want: map[string]finding{"GPU health": {Warning, "2 GPUs are not healthy, which no job gets: n2 (0 "}},
		},
		"an inventory cannot be read": {
			change: func(f *Facts) { f.Nodes[1].Annotations = map[string]string{names.AnnotationInventory: "{"} },
			want:   map[string]finding{"GPU inventories": {Warning, "what 1 node says of its GPUs cannot be read"}},
		},
		"a device plugin offers parts of GPUs": {
			change: func(f *Facts) {
				f.Nodes[1].Labels[names.LabelNVIDIAReplicas], f.Nodes[1].Labels[names.LabelNVIDIASharing] = "4", "time-slicing"
			},
			want: map[string]finding{"GPUs in parts": {Warning, "1 node offers parts of GPUs as whole ones: "}},
		},
		"an administrator has copied a pod with its card and its node": {
			change: func(f *Facts) {
				for _, name := range []string{"train", "train-copy"} {
					pod := placed("n1", 1, names.SchedulerName)
					pod.Name, pod.Annotations = name, map[string]string{names.AnnotationGPUDevices: `{"version":1,"containers":{"main":[{"uuid":"GPU-1","index":0}]}}`}
					f.Pods = append(f.Pods, pod)
				}
			},
			want: map[string]finding{"other schedulers": {Failed, "pods team/train and team/train-copy of node n1 have the same card"}},
		},
		"two pods share a card that others had before": {
			change: func(f *Facts) {
				for _, one := range []struct {
					phase  corev1.PodPhase
					memory string
				}{{corev1.PodSucceeded, ""}, {corev1.PodFailed, ""}, {corev1.PodRunning, `,"memoryMiB":1000`}, {corev1.PodRunning, `,"memoryMiB":1000`}} {
					pod := placed("n1", 1, names.SchedulerName)
					pod.Status.Phase = one.phase
					pod.Annotations = map[string]string{names.AnnotationGPUDevices: `{"version":1,"containers":{"main":[{"uuid":"GPU-1","index":0` + one.memory + `}]}}`}
					f.Pods = append(f.Pods, pod)
				}
			},
		},
		"a node does not say of which type its GPUs are": {
			change: func(f *Facts) {
				f.Nodes = append(f.Nodes, node("plain", "4", map[string]string{names.LabelAccelerator: names.NoGPUType}))
			},
			want: map[string]finding{"GPU types": {Warning, "no job goes there that names one: plain"}},
		},
		"a cloud says of which type a node's GPUs are": {
			change: func(f *Facts) {
				f.Nodes = append(f.Nodes, node("cloud", "4", map[string]string{"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}))
			},
			want: map[string]finding{},
		},
		"a label about GPUs cannot be read": {
			change: func(f *Facts) { f.Nodes[1].Labels[names.LabelMemory] = "80GB" },
			want:   map[string]finding{"GPU inventories": {Warning, "reading label gpu-memory"}},
		},
		"the user's namespace is being deleted": {
			change: func(f *Facts) { f.Namespaces[0].Status.Phase = corev1.NamespaceTerminating },
			want:   map[string]finding{"namespaces": {Failed, "namespace team is being deleted: nothing can be created in it"}},
		},
		"the user's namespace is not there": {
			change: func(f *Facts) { f.Namespaces = nil },
			want:   map[string]finding{"namespaces": {Failed, "there is no namespace team"}},
		},
		"another namespace is being deleted": {
			change: func(f *Facts) {
				f.Namespaces = append(f.Namespaces, corev1.Namespace{
					ObjectMeta: metav1.ObjectMeta{Name: "old"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating},
				})
			},
			want: map[string]finding{"namespaces": {Warning, "1 is being deleted: old"}},
		},
		"a key of an older gpuctl, and one in camel case": {
			change: func(f *Facts) {
				f.Nodes = append(f.Nodes, node("n3", "8", map[string]string{"runwhere.ai/pool": "x", "g8s.host/gpuType": "y", "example.com/pool": "z"}))
			},
			want: map[string]finding{"labels of nodes": {Warning, "label g8s.host/gpuType is not read, g8s.host/gpu-type is (n3); label runwhere.ai/pool is not read"}},
		},
		"keys with a letter too few, too many or another": {
			change: func(f *Facts) {
				f.Nodes = append(f.Nodes, node("n3", "8", map[string]string{"g8s.host/gpu-typ": "x", "g8s.host/pol": "y", "g8s.host/team": "z"}))
			},
			want: map[string]finding{"labels of nodes": {Warning, "label g8s.host/gpu-typ is not read, g8s.host/gpu-type is (n3); label g8s.host/pol is not read, g8s.host/pool is (n3)"}},
		},
		"a node whose GPUs are for claims": {
			change: func(f *Facts) {
				f.Nodes = append(f.Nodes, node("dra-1", "0", map[string]string{names.LabelGPUType: "A100-80G", names.LabelPool: "training"}))
				f.ResourceSlices = []resourcev1.ResourceSlice{{Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.nvidia.com", NodeName: ptr.To("dra-1"), Devices: make([]resourcev1.Device, 8)}}}
			},
			want: map[string]finding{"device plugin": {Warning, "2 nodes offer GPUs, and those of these are for claims alone (ResourceClaims, driver gpu.nvidia.com), which no GPUQuota counts: dra-1"}},
		},
		"a node whose claims are of something else": {
			change: func(f *Facts) {
				f.Nodes = append(f.Nodes, node("dra-1", "0", map[string]string{names.LabelGPUType: "A100-80G", names.LabelPool: "training"}))
				f.ResourceSlices = []resourcev1.ResourceSlice{{Spec: resourcev1.ResourceSliceSpec{Driver: "dra.net", NodeName: ptr.To("dra-1"), Devices: make([]resourcev1.Device, 8)}}}
			},
			want: map[string]finding{"device plugin": {Failed, "labelled with GPUs but offering none: dra-1"}},
		},
		"another scheduler gives GPUs away": {
			change: func(f *Facts) {
				f.Pods = []corev1.Pod{placed("n1", 4, names.SchedulerName), placed("n1", 4, "default-scheduler")}
			},
			want: map[string]finding{"other schedulers": {Warning, "gpu-scheduler did not place, so that one GPU may be given away twice (by default-scheduler: team/n1-default-scheduler)"}},
		},
		"another scheduler has given the same GPUs away": {
			change: func(f *Facts) {
				f.Pods = []corev1.Pod{placed("n2", 8, names.SchedulerName), placed("n2", 8, "default-scheduler")}
			},
			want: map[string]finding{"other schedulers": {Failed, "some pods do not start: n2; n2: 16 of 8 (by default-scheduler: team/n2-default-scheduler)"}},
		},
		"a pod names a scheduler that nobody runs": {
			change: func(f *Facts) { f.Pods = []corev1.Pod{waitingSince(t0.Add(-time.Hour), "volcano")} },
			want:   map[string]finding{"schedulers of waiting pods": {Warning, "has not looked at them for a minute (by volcano: team/-volcano)"}},
		},
		"a pod whose scheduler looks at others": {
			change: func(f *Facts) {
				looked := waitingSince(t0.Add(-2*time.Hour), "volcano")
				looked.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(t0)}}
				f.Pods = []corev1.Pod{looked, waitingSince(t0.Add(-time.Hour), "volcano")}
			},
		},
		"a pod that another scheduler has refused": {
			change: func(f *Facts) {
				looked := waitingSince(t0.Add(-time.Hour), "volcano")
				looked.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
				f.Pods = []corev1.Pod{looked, waitingSince(t0, "volcano"), waitingSince(t0.Add(-time.Hour), names.SchedulerName)}
			},
		},
		"kube-controller-manager has died": {
			change: func(f *Facts) {
				f.Manager = f.Lease.DeepCopy()
				f.Manager.Spec.RenewTime.Time = t0.Add(-time.Minute)
			},
			want: map[string]finding{"kube-controller-manager": {Failed, "last heard of 1m0s ago, so that Kubernetes makes no pods for jobs"}},
		},
		"kube-controller-manager has died, and has no lease": {
			change: func(f *Facts) {
				f.Jobs = []batchv1.Job{jobSince(t0.Add(-time.Hour)), jobSince(t0)}
				f.Jobs[1].Name = "new"
			},
			want: map[string]finding{"kube-controller-manager": {Failed, "no controller has seen Jobs that were created more than a minute ago, so that Kubernetes makes no pods for jobs: team/old"}},
		},
		"Jobs that another controller manages are not missed": {
			change: func(f *Facts) {
				f.Jobs = []batchv1.Job{jobSince(t0.Add(-time.Hour))}
				f.Jobs[0].Spec.ManagedBy = ptr.To("kueue.x-k8s.io/multikueue")
			},
		},
		"another scheduler has nodes of its own": {
			change: func(f *Facts) {
				f.Nodes[1].Labels[names.LabelPool] = "volcano"
				f.Pods = []corev1.Pod{placed("n1", 8, names.SchedulerName), placed("n2", 8, "volcano")}
			},
		},
		"what may not be read is unknown, not missing": {
			change: func(f *Facts) {
				*f = Facts{Groups: f.Groups}
				for _, part := range []snapshot.Part{
					snapshot.PartPriorityClasses, snapshot.PartLease, snapshot.PartNodes, snapshot.PartPolicies, snapshot.PartNamespace, snapshot.PartAllPods,
					snapshot.PartJobs,
				} {
					f.MarkUnread(part)
				}
			},
			want: map[string]finding{
				"priority classes": {Unknown, "may not read"}, "scheduler": {Unknown, "may not read"}, "fence": {Unknown, "may not read"},
				"device plugin": {Unknown, "may not read"}, "labels of nodes": {Unknown, "may not read"}, "namespaces": {Unknown, "may not read"},
				"nodes": {Unknown, "may not read"}, "pools": {Unknown, "may not read"}, "GPU health": {Unknown, "may not read"},
				"GPU inventories": {Unknown, "may not read"}, "GPUs in parts": {Unknown, "may not read"}, "other schedulers": {Unknown, "may not read"},
				"schedulers of waiting pods": {Unknown, "may not read"}, "kube-controller-manager": {Unknown, "may not read"}, "GPU types": {Unknown, "may not read"},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			facts := healthy()
			tc.change(&facts)
			got := map[string]finding{}
			for _, check := range Examine(facts) {
				if check.Status == OK {
					continue
				}
				if len(check.Advice) == 0 {
					t.Errorf("%s does not say what to do", check.Name)
				}
				text := check.Text.String()
				if want := tc.want[check.Name]; strings.Contains(text, want.Text) {
					text = want.Text
				}
				got[check.Name] = finding{check.Status, text}
			}
			want := tc.want
			if want == nil {
				want = map[string]finding{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestANodeThatIsClosedForMovesIsOpenedWithoutMoves: what is advised for it evicts nobody.
func TestANodeThatIsClosedForMovesIsOpenedWithoutMoves(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a1"},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: names.TaintMoving, Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	_, says := closedReason(node)
	advice := says.String()
	if !strings.Contains(advice, "kubectl taint node a1 "+names.TaintMoving+"-") || strings.Contains(advice, "--apply opens") {
		t.Errorf("the advice is %q", advice)
	}
}

// TestWhoLeadsTheControllerIsTold where it was ever there, and the user may know it.
func TestWhoLeadsTheControllerIsTold(t *testing.T) {
	f := healthy()
	if check, told := f.checkController(); told {
		t.Errorf("without a lease it says %+v", check)
	}
	f.Controller = f.Lease
	if check, told := f.checkController(); !told || check.Status != OK || check.Text.String() != "a leads" {
		t.Errorf("it says %+v, want that a leads", check)
	}
}
