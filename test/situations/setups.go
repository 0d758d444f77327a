package situations

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// setups are what testdata names: each adds one cause to a world. Those of nodes, refusals and started pods are in files of their own.
var setups = mergeSetups(jobSetups, gangSetups, nodeSetups, podSetups, refusalSetups, startedSetups)

func mergeSetups(all ...map[string]func(*World)) map[string]func(*World) {
	out := map[string]func(*World){}
	for _, some := range all {
		for name, setup := range some {
			if out[name] != nil {
				panic("two setups are called " + name) //nolint:forbidigo // a mistake in the data of tests ends them
			}
			out[name] = setup
		}
	}
	return out
}

// jobSetups are about the job as a whole, and the pods of others.
var jobSetups = map[string]func(*World){
	"paused": func(w *World) {
		w.suspendJob()
		w.meta.Annotations[names.AnnotationPausedAt] = Noon.Add(-time.Minute).Format(time.RFC3339)
	},
	"waits for a job": func(w *World) {
		w.suspendJob()
		w.meta.Annotations[names.AnnotationDependsOn], w.meta.Annotations[names.AnnotationWaitsFor] = "ok=prep", "prep"
		w.others = []batchv1.Job{{
			ObjectMeta: metav1.ObjectMeta{Name: "prep", Namespace: namespace, UID: "prep", Labels: map[string]string{names.LabelJob: "prep", names.LabelJobType: "training"}},
			Status:     batchv1.JobStatus{StartTime: ptr.To(metav1.NewTime(Noon.Add(-time.Hour)))},
		}}
	},
	"comes after another gang for a quota": func(w *World) {
		w.suspendJob()
		w.meta.Annotations[names.AnnotationQuotaBehind] = "first"
	},
	"held by Kueue": func(w *World) {
		w.suspendJob()
		w.meta.Labels[names.LabelKueueQueue] = "gpus"
	},
	"pods gated by Kueue": func(w *World) {
		w.phases = append(w.phases, func(pod *corev1.Pod) {
			pod.Labels[names.LabelKueueQueue] = "gpus"
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
		})
	},
	"creation cut short": func(w *World) { w.unmade, w.meta.Annotations[names.AnnotationIncomplete] = true, "true" },
	"cancelled": func(w *World) {
		w.unmade, w.meta.Annotations[names.AnnotationCancelledAt] = true, Noon.Add(-time.Minute).Format(time.RFC3339)
	},
	"dead controllers": func(w *World) { w.unmade, w.status = true, batchv1.JobStatus{} },
	"dead scheduler":   func(w *World) { w.cluster.Lease = leaseRenewed(Noon.Add(-time.Hour)) },
	"failed of memory": func(w *World) {
		w.unmade = true
		w.failJob(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
		w.template.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("4Gi")
		w.placePod(func(pod *corev1.Pod) { endContainer(pod, "OOMKilled", 137) })
	},
	"failed of time": func(w *World) {
		w.unmade, w.spec.ActiveDeadlineSeconds = true, ptr.To[int64](4*3600)
		w.failJob(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	},
	"failed of its program": func(w *World) {
		w.unmade = true
		w.failJob(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
		w.placePod(func(pod *corev1.Pod) { endContainer(pod, "Error", 3) })
	},
	"between two tries": func(w *World) {
		w.unmade, w.spec.BackoffLimit = true, ptr.To[int32](3)
		w.placePod(func(pod *corev1.Pod) { endContainer(pod, "Error", 7) })
	},
	"priority low":  func(w *World) { w.template.Spec.PriorityClassName = names.PriorityClassLow },
	"unknown class": func(w *World) { w.template.Spec.PriorityClassName = "urgent" },
	"nodes full": func(w *World) {
		w.holders = append(w.holders, w.holderOn("n1", names.PriorityClassMedium, 8))
		w.sayVerdict("room", oneNode+"node(s) have too few free GPUs.")
	},
	"nodes half full of medium": func(w *World) {
		w.askGPUs("8")
		high := w.holderOn("n1", names.PriorityClassHigh, 4)
		high.Name, high.UID = "high-n1", "high-n1"
		w.holders = append(w.holders, w.holderOn("n1", names.PriorityClassMedium, 4), high)
		w.sayVerdict("room", oneNode+"node(s) have too few free GPUs.")
	},
	"disruption budget": func(w *World) {
		w.space.Budgets = []policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Name: "keep", Namespace: "other"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}},
		}}
	},
	"drained": func(w *World) {
		w.nodes[0].Spec.Unschedulable = true
		w.sayVerdict("node", "0/1 nodes are available: 1 node(s) were unschedulable.")
		w.events = append(w.events, corev1.Event{
			Reason: "SuccessfulCreate", Message: "Created pod: train-old", LastTimestamp: metav1.NewTime(Noon.Add(-time.Hour)),
			InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: jobName, UID: w.meta.UID},
		}, corev1.Event{
			Reason: "Scheduled", Message: "Successfully assigned team/train-old to n1", LastTimestamp: metav1.NewTime(Noon.Add(-time.Hour)),
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "train-old", UID: "old"},
		})
	},
	"replicas that cannot pull": func(w *World) { w.makeReplicas(true) },
	"replicas that run":         func(w *World) { w.makeReplicas(false) },
}

// oneNode begins the verdict about the only node.
const oneNode = "0/1 nodes are available: 1 "

// suspendJob has Kubernetes make no pods of the job.
func (w *World) suspendJob() {
	w.unmade, w.spec.Suspend = true, ptr.To(true)
	w.status = batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}}
}

// failJob ends the job.
func (w *World) failJob(why, message string) {
	w.status.Conditions = append(w.status.Conditions, batchv1.JobCondition{
		Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: why, Message: message, LastTransitionTime: metav1.NewTime(Noon.Add(-time.Minute)),
	})
}

// endContainer has a pod fail because its container ended.
func endContainer(pod *corev1.Pod, why string, code int32) {
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: why, ExitCode: code, FinishedAt: metav1.NewTime(Noon.Add(-time.Minute))},
	}}}
}

// askGPUs has each pod of the job ask for a number of GPUs.
func (w *World) askGPUs(count string) {
	resources := &w.template.Spec.Containers[0].Resources
	for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
		if _, ok := list[names.ResourceGPU]; ok {
			list[names.ResourceGPU] = resource.MustParse(count)
		}
	}
}

// gangSetups make the job one of several nodes.
var gangSetups = map[string]func(*World){
	"gang of two racks": func(w *World) {
		w.makeGang(2, 8, "r2")
		w.sayVerdict("gang", reason.GangDomainTooSmall.Text.FormatText("rack", 2, "1 in r1"))
	},
	"gang of high priority": func(w *World) {
		w.makeGang(2, 8, "r1")
		w.template.Spec.PriorityClassName = names.PriorityClassHigh
		w.holders = append(w.holders, w.holderOn("n2", names.PriorityClassLow, 8))
		w.sayVerdict("gang", "0/2 nodes are available: "+reason.GangHasRoomForSome.Text.FormatText(1, 2)+".")
	},
	"gang of three that makes two": func(w *World) {
		w.makeGang(2, 4, "r1")
		w.sayVerdict("gang", "cannot find enough sibling pods, current pods number: 2, minMember of group: 3")
	},
	"gang without its group": func(w *World) {
		w.makeGang(2, 8, "r1")
		w.space.PodGroups = []string{}
		w.sayVerdict("gang", string(reason.GangUnknown.Text))
	},
	"gang of nine on two nodes": func(w *World) {
		w.makeGang(9, 8, "r1")
		w.meta.Annotations[names.AnnotationSubmitted] = ""
		w.sayVerdict("gang", "0/2 nodes are available: "+reason.GangNeverFits.Text.FormatText(2, 9)+".")
	},
}

// makeGang makes the job one of several nodes in one rack, beside a second node in a rack.
func (w *World) makeGang(members int32, count int64, rack string) {
	w.members = members
	w.template.Labels[names.LabelPodGroup] = jobName
	w.space.PodGroups = []string{jobName}
	w.askGPUs(resource.NewQuantity(count, resource.DecimalSI).String())
	w.nodes = append(w.nodes, *fixture.Node("n2").Pool(jobPool).GPUs(8, "A100-80G").Label(names.LabelRack, rack).Obj())
	w.meta.Annotations[names.AnnotationSubmitted] = "kind: training\njob: {name: train}\nenvironment: {image: i, command: [c]}\n" +
		"resources: {pool: train-pool, nodes: 2, gpu: 8, cpu: 4, memory: 1Gi, topology: {level: rack, mode: required}}\n"
}
