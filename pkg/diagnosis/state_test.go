package diagnosis

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

const quotaSaid = `exceeded quota: team, requested: requests.nvidia.com/gpu=4, used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=2`

// template is what the pods of a job are made from.
func template(gpus int64) *corev1.PodTemplateSpec {
	pod := fixture.Pod("p").GPUs(gpus).Pool("p").Obj()
	return &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
}

// unborn is a job without a pod, which the API server has refused before.
func unborn(refusal string, change func(*Facts)) Facts {
	f := Facts{Cluster: snapshot.Snapshot{Now: noon, Nodes: []corev1.Node{*node("n1", "p", 8).Obj()}}}
	f.Job = inventory.JobDetail{Template: template(4), Job: inventory.Job{ControllerObserved: true,
		Name: "train", Namespace: "team", Kind: "training", Status: inventory.StatusPending, Desired: 1, Created: noon.Add(-time.Hour),
	}}
	if refusal != "" {
		f.Job.Refusal = refusal
		f.Job.Events = []inventory.Event{{Reason: "FailedCreate", Object: "Job/train", Last: noon.Add(-3 * time.Minute)}}
	}
	return f.with(change)
}

// quota is what is read of a namespace that has one.
func quota(hard, used string) *snapshot.Snapshot {
	list := func(count string) corev1.ResourceList {
		return corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse(count)}
	}
	return &snapshot.Snapshot{Quotas: []corev1.ResourceQuota{{
		ObjectMeta: metav1.ObjectMeta{Name: "team"},
		Spec:       corev1.ResourceQuotaSpec{Hard: list(hard)}, Status: corev1.ResourceQuotaStatus{Hard: list(hard), Used: list(used)},
	}}}
}

// leavingPod is one that was told to leave for another one, and has not ended.
func leavingPod(reason string) corev1.Pod {
	pod := on("n1", 8, "train")
	pod.DeletionTimestamp = &metav1.Time{Time: noon.Add(20 * time.Second)}
	pod.DeletionGracePeriodSeconds = ptr.To[int64](30)
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(noon.Add(-10 * time.Second)),
	}}
	return pod
}

func dead(ago time.Duration) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To[int32](3), RenewTime: &metav1.MicroTime{Time: noon.Add(-ago)},
	}}
}

// TestCausesComeFromStateNow has events and verdicts that are older than what the cluster shows.
func TestCausesComeFromStateNow(t *testing.T) {
	lost := node("n1", "p", 8).Obj()
	lost.Status.Conditions[0].Status = corev1.ConditionUnknown
	lost.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-3 * time.Minute))
	running := func(nodes ...corev1.Node) Facts {
		pod := on("n1", 8, "train")
		pod.Status.Phase = corev1.PodRunning
		return factsOf(pod).with(func(f *Facts) { f.Job.Status, f.Cluster.Nodes, f.Job.Desired = inventory.StatusRunning, nodes, 1 })
	}
	victim := on("n1", 4, "victim")
	victim.DeletionTimestamp = &metav1.Time{Time: noon.Add(12 * time.Second)}
	preemptor := refused(fixture.Pod("p").GPUs(8).Pool("p"), busy)
	preemptor.Status.NominatedNodeName = "n1"
	urgent := on("n1", 8, "urgent-eval")
	tests := map[string]struct {
		facts Facts
		want  []reason.Cause
		says  string
		never string
	}{
		"a quota that refused the job is gone": {
			facts: unborn(quotaSaid, func(f *Facts) { f.Space = &snapshot.Snapshot{} }),
			want:  []reason.Cause{reason.WaitingForControllers}, says: "nothing stands against them any more",
		},
		"a quota that refused the job has room": {
			facts: unborn(quotaSaid, func(f *Facts) { f.Space = quota("8", "0") }), want: []reason.Cause{reason.WaitingForControllers},
		},
		"a quota that is too small for a pod that says only its limits": {
			facts: unborn("", func(f *Facts) {
				f.Space = quota("2", "0")
				f.Job.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{
					Limits: corev1.ResourceList{names.ResourceGPU: resource.MustParse("4")},
				}
			}),
			want: []reason.Cause{reason.QuotaExceeded}, says: "asks for 4 GPUs",
		},
		"a quota that is too small, whatever was said": {
			facts: unborn("", func(f *Facts) { f.Space = quota("2", "0") }), want: []reason.Cause{reason.QuotaExceeded}, says: "it never fits",
		},
		"a quota that has room for one of two replicas": {
			facts: unborn("", func(f *Facts) {
				f.Space = quota("5", "4")
				f.Job.Kind, f.Job.Desired = "inference", 2
			}),
			want: []reason.Cause{reason.QuotaExceeded}, says: "the job has 2 pods: at most 1 of them fit",
		},
		"quotas that may not be read are believed, with their age": {
			facts: unborn(quotaSaid, func(*Facts) {}), want: []reason.Cause{reason.QuotaExceeded}, says: "refused at 11:57, 3m ago",
		},
		"a job that runs was refused before": {
			facts: running(*node("n1", "p", 8).Obj()).with(func(f *Facts) {
				f.Job.Refusal = quotaSaid
			}),
		},
		"a service account is missing, and made in the job's namespace": {
			facts: unborn(`error looking up service account team/robot: serviceaccount "robot" not found`, func(*Facts) {}),
			want:  []reason.Cause{reason.NoSuchServiceAccount}, says: "kubectl create serviceaccount robot -n team",
		},
		"a namespace that goes": {
			facts: unborn("", func(f *Facts) {
				f.Space = &snapshot.Snapshot{Namespaces: []corev1.Namespace{
					{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: noon.Add(-time.Minute)}}},
				}}
			}),
			want: []reason.Cause{reason.NamespaceTerminating}, says: "told so at 11:59", never: "kube-controller-manager",
		},
		"no controller looks": {
			facts: unborn("", func(f *Facts) { f.Job.ControllerObserved = false }), want: []reason.Cause{reason.WaitingForControllers}, says: "no controller has looked",
		},
		"a pod that leaves for another one": {
			facts: unborn("", func(f *Facts) {
				f.Pods = []corev1.Pod{leavingPod(corev1.PodReasonPreemptionByScheduler)}
				f.Job.Events = []inventory.Event{{Reason: "Preempted", Object: "Pod/train-n1", Related: "team/urgent-eval-n1", Last: noon}}
				f.Cluster.Pods = []corev1.Pod{urgent}
			}),
			want: []reason.Cause{reason.Preempted}, says: "preempted by job urgent-eval of namespace team at 11:59, 10s ago", never: "kube-controller-manager",
		},
		"a pod that leaves for one that it borrowed from": {
			facts: unborn("", func(f *Facts) {
				leaves, lender := leavingPod(corev1.PodReasonPreemptionByScheduler), urgent
				leaves.Spec.Priority, lender.Spec.Priority = ptr.To[int32](2), ptr.To[int32](1)
				f.Pods = []corev1.Pod{leaves}
				f.Job.Events = []inventory.Event{{Reason: "Preempted", Object: "Pod/train-n1", Related: "team/urgent-eval-n1", Last: noon}}
				f.Cluster.Pods = []corev1.Pod{lender}
			}),
			want: []reason.Cause{reason.Preempted}, says: "as its GPUs were borrowed from who is guaranteed them by a GPUQuota", never: "higher priority",
		},
		"a pod that left for another one, which is there": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(8).Pool("p"), busy), node("n1", "p", 8)).with(func(f *Facts) {
				f.Job.Past = []inventory.Event{{Reason: "Preempted", Object: "Pod/train-old", Related: "team/urgent-eval-n1", Last: noon.Add(-time.Hour)}}
				f.Cluster.Pods = []corev1.Pod{urgent}
			}),
			want: []reason.Cause{reason.Preempted, reason.Busy}, says: "preempted by job urgent-eval of namespace team at 11:00, 60m ago",
		},
		"a pod that left for another one, which is gone": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(8).Pool("p"), busy), node("n1", "p", 8)).with(func(f *Facts) {
				f.Job.Past = []inventory.Event{{Reason: "Preempted", Object: "Pod/train-old", Related: "team/urgent-eval-n1", Last: noon.Add(-time.Hour)}}
				f.Cluster.Pods = []corev1.Pod{on("n1", 8, "other")}
			}),
			want: []reason.Cause{reason.Busy, reason.Preempted},
		},
		"a pod that leaves, whose place in the quota the next one takes": {
			facts: unborn("", func(f *Facts) {
				f.Job.Object.Kind = "Job"
				f.Pods = []corev1.Pod{leavingPod("EvictionByEvictionAPI")}
				f.Job.Template = template(8)
				f.Space = quota("8", "8")
			}),
			want: []reason.Cause{reason.Evicted}, never: "exceeded",
		},
		"a pod that leaves, and a quota that was lowered below it": {
			facts: unborn("", func(f *Facts) {
				f.Job.Object.Kind = "Job"
				f.Pods = []corev1.Pod{leavingPod("EvictionByEvictionAPI")}
				f.Job.Template = template(8)
				f.Space = quota("4", "8")
			}),
			want: []reason.Cause{reason.QuotaExceeded, reason.Evicted}, says: "it never fits",
		},
		"a pod that was drained": {
			facts: unborn("", func(f *Facts) { f.Pods = []corev1.Pod{leavingPod("EvictionByEvictionAPI")} }),
			want:  []reason.Cause{reason.Evicted}, says: "kubectl drain",
		},
		"a pod that left a broken GPU": {
			facts: unborn("", func(f *Facts) {
				f.Pods = []corev1.Pod{leavingPod("EvictionByEvictionAPI")}
				f.Job.Events = []inventory.Event{{Reason: names.EventMovedFromBrokenGPU, Object: "Pod/train-n1", Last: noon}}
			}),
			want: []reason.Cause{reason.Evicted}, says: "one of its gang's, was found broken", never: "kubectl drain",
		},
		"a pod that left a broken GPU, and is gone": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(8).Pool("p"), busy), node("n1", "p", 8)).with(func(f *Facts) {
				f.Job.Past = []inventory.Event{{Reason: names.EventMovedFromBrokenGPU, Object: "Pod/train-old", Last: noon.Add(-time.Hour)}}
				f.Cluster.Pods = []corev1.Pod{on("n1", 8, "other")}
			}),
			want: []reason.Cause{reason.Busy, reason.Evicted}, says: "was found broken",
		},
		"others leave for the pod": {
			facts: factsOf(preemptor, node("n1", "p", 8)).with(func(f *Facts) { f.Cluster.Pods = []corev1.Pod{victim} }),
			want:  []reason.Cause{reason.Preempting}, says: "waits for 1 pod to leave n1", never: "Fragmented",
		},
		"a node that is not ready for minutes": {
			facts: running(*lost), want: []reason.Cause{reason.NodeLost}, says: "has not been ready for 3m",
		},
		"a node that is gone":      {facts: running(), want: []reason.Cause{reason.NodeLost}, says: "has been deleted"},
		"a node that nobody shows": {facts: running().with(func(f *Facts) { f.Cluster.Unread = []snapshot.Part{snapshot.PartNodes} })},
		"a scheduler that died after it spoke": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), busy), node("n1", "p", 8)).with(func(f *Facts) { f.Cluster.Lease = dead(47 * time.Second) }),
			want:  []reason.Cause{reason.SchedulerDown}, says: "no gpu-scheduler has been running for 47s", never: "tries again by itself",
		},
		"a scheduler that died after it spoke of what nobody else knows": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), "0/1 nodes are available: 1 moon not full."), node("n1", "p", 8)).with(func(f *Facts) { f.Cluster.Lease = dead(47 * time.Second) }),
			want:  []reason.Cause{reason.SchedulerDown}, says: "no gpu-scheduler has been running for 47s", never: "moon",
		},
		"a scheduler that died, and nodes that nobody shows": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), busy)).with(func(f *Facts) {
				f.Cluster.Lease, f.Cluster.Unread = dead(47*time.Second), []snapshot.Part{snapshot.PartNodes}
			}),
			want: []reason.Cause{reason.SchedulerDown}, says: "no gpu-scheduler has been running for 47s", never: "too few free",
		},
		"a scheduler that leads, looked at from a machine whose clock is ahead": {
			facts: factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), busy), node("n1", "p", 8)).with(func(f *Facts) {
				f.Cluster.Lease, f.Cluster.Now = dead(47*time.Second), noon.Add(-46*time.Second)
			}),
			want: []reason.Cause{reason.RoomNow}, never: "SchedulerDown",
		},
		"a claim is missing, and the GPUs are in use": {
			facts: factsOf(claiming(), node("n1", "p", 8)).with(func(f *Facts) {
				f.Space, f.Cluster.Pods = &snapshot.Snapshot{}, []corev1.Pod{on("n1", 8, "other")}
			}),
			want: []reason.Cause{reason.VolumeMissing, reason.Busy},
		},
		"a claim that was missing is there": {
			facts: factsOf(claiming(), node("n1", "p", 8)).with(func(f *Facts) {
				f.Space = &snapshot.Snapshot{Claims: []corev1.PersistentVolumeClaim{{
					ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"},
				}}}
			}),
			want: []reason.Cause{reason.RoomNow},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			report := Diagnose(tc.facts)
			var got []reason.Cause
			text := ""
			for _, finding := range report.Findings {
				got = append(got, finding.Cause)
				text += finding.Text + "; " + strings.Join(finding.Advice, "; ")
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("the causes are %v, want %v: %s", got, tc.want, text)
			}
			if !strings.Contains(text, tc.says) || tc.never != "" && strings.Contains(text, tc.never) {
				t.Errorf("it says %q, want %q and not %q", text, tc.says, tc.never)
			}
		})
	}
}

// claiming is a pod whose claim was missing when the scheduler looked.
func claiming() corev1.Pod {
	pod := refused(fixture.Pod("p").GPUs(4).Pool("p"), `0/1 nodes are available: persistentvolumeclaim "data" not found.`)
	pod.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	return pod
}

// TestWhoCouldBeStopped is about holders of lower priority: whether the job could take their place, and if not, why.
func TestWhoCouldBeStopped(t *testing.T) {
	classes := &snapshot.Snapshot{PodGroups: []string{"train"}, PriorityClasses: []schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: names.PriorityClassHigh}, Value: 1000},
	}}
	holder := func(priority int32) corev1.Pod {
		pod := on("n1", 6, "other")
		pod.Spec.Priority = &priority
		return pod
	}
	young := holder(100)
	young.Status.StartTime = &metav1.Time{Time: noon.Add(-time.Hour)}
	young.Annotations = map[string]string{names.AnnotationMinRuntime: "3h"}
	const spared = "may not be stopped before they have run for their min-runtime, the first of them for 60m more" // by their pool, of 2h
	waiting := func(priority int32, policy corev1.PreemptionPolicy, gang bool) corev1.Pod {
		pod := refused(fixture.Pod("p").GPUs(4).Pool("p"), busy)
		pod.Spec.Priority, pod.Spec.PreemptionPolicy = &priority, &policy
		if gang {
			pod.Labels[names.LabelPodGroup] = "train"
		}
		return pod
	}
	tests := map[string]struct {
		pod    corev1.Pod
		holder corev1.Pod
		says   string
		sets   bool // priority high
	}{
		"low, and high would stop it":     {waiting(500, corev1.PreemptNever, false), holder(100), "at its own priority it stops nobody", true},
		"high, so nobody would":           {waiting(500, corev1.PreemptNever, false), holder(1000), "nobody there has a priority below high", false},
		"equal to a job that may":         {waiting(1000, corev1.PreemptLowerPriority, false), holder(1000), "nobody of lower priority holds enough", false},
		"low, and the job may stop it":    {waiting(1000, corev1.PreemptLowerPriority, false), holder(100), "the scheduler may stop others of lower priority on node n1", false},
		"low, and the job is of a gang":   {waiting(1000, corev1.PreemptLowerPriority, true), holder(100), "a job on several nodes stops others, of lower priority, only if", false},
		"low, and has not run for long":   {waiting(1000, corev1.PreemptLowerPriority, false), young, spared, false},
		"low, which high had to wait for": {waiting(500, corev1.PreemptNever, false), young, spared, false},
		"low, and for a service":          {waiting(2_000_000_000, corev1.PreemptLowerPriority, false), young, "the scheduler may stop others", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			report := Diagnose(factsOf(tc.pod, node("n1", "p", 8)).with(func(f *Facts) {
				f.Cluster.Pods, f.Space = []corev1.Pod{tc.holder}, classes
				f.Cluster.GPUPools = []names.GPUPool{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: names.GPUPoolSpec{Defaults: names.PoolDefaults{MaxMinRuntime: "2h"}}}}
			}))
			if len(report.Findings) == 0 || report.Cause != reason.Busy {
				t.Fatalf("the report is %+v, want %s", report, reason.Busy)
			}
			first := report.Findings[0]
			if text := first.Text + strings.Join(first.Advice, "; "); !strings.Contains(text, tc.says) {
				t.Errorf("it says %q, want %q", text, tc.says)
			}
			if sets := slices.ContainsFunc(first.Steps, func(s Step) bool { return s.Action == reason.SetPriority }); sets != tc.sets {
				t.Errorf("a step to another priority: %v, want %v", sets, tc.sets)
			}
		})
	}
}

// TestAGangHasItsNearestNodes as a job of one pod has.
func TestAGangHasItsNearestNodes(t *testing.T) {
	members := make([]corev1.Pod, 3)
	for i := range members {
		members[i] = refused(fixture.Pod("train-"+string(rune('0'+i))).GPUs(8).Pool("p"), "")
		members[i].Labels[names.LabelPodGroup] = "train"
	}
	facts := factsOf(members[0], node("a", "p", 8), node("b", "p", 8), node("c", "p", 8)).with(func(f *Facts) {
		f.Pods, f.Job.Desired = members, 3
		f.Pods[0].Status.Conditions[0].Message = "0/3 nodes are available: gang: there is room for 2 of 3 members now, and all start at once."
		f.Cluster.Pods = []corev1.Pod{on("c", 2, "other")}
	})
	report := Diagnose(facts)
	if report.Cause != reason.GangWaiting || len(report.NearMisses) != 1 || report.NearMisses[0].Node != "c" || report.NearMisses[0].Short != 2 {
		t.Fatalf("cause %s, nearest %+v; want %s, and node c 2 short", report.Cause, report.NearMisses, reason.GangWaiting)
	}
	steps := report.Findings[0].Steps
	if len(steps) != 2 || len(steps[0].Holders) != 1 || steps[0].Holders[0].Job != "other" || steps[1].Field != reason.FieldNodes || steps[1].Value != "2" {
		t.Errorf("the steps are %+v, want to wait for job other, or to ask for 2 nodes", steps)
	}
}
