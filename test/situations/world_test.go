package situations

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// world is a job that has room and waits for its turn, until setups change it.
type world struct {
	job      inventory.JobDetail
	template *corev1.Pod
	nodes    []corev1.Node
	// holders are the pods on nodes, others those of the job that have nodes.
	holders, placed []corev1.Pod
	space           snapshot.Snapshot
	pools           []names.GPUPool
	others          []inventory.Job
	// unmade is true if no pod of the job exists, members are how many wait.
	unmade  bool
	members int
	verdict string
}

func newWorld() *world {
	template := fixture.Pod("train").GPUs(4).Pool("train-pool").Type("A100-80G").CPU(4).Obj()
	template.Spec.SchedulerName, template.Spec.PriorityClassName = names.SchedulerName, names.PriorityClassMedium
	w := &world{template: template, members: 1}
	w.verdict = "0/1 nodes are available: 1 node(s) have too few free GPUs."
	w.job.Job = inventory.Job{
		Name: "train", Namespace: "team", Kind: "training", Status: inventory.StatusPending, Desired: 1, Created: noon.Add(-time.Hour), ControllerObserved: true,
		Object: inventory.ObjectRef{Kind: "Job", Name: "train"},
	}
	w.nodes = []corev1.Node{*fixture.Node("n1").Pool("train-pool").GPUs(8, "A100-80G").Label(names.LabelRack, "r1").Obj()}
	for name, value := range map[string]int32{names.PriorityClassHigh: 1000, names.PriorityClassMedium: 500, names.PriorityClassLow: 100} {
		policy := corev1.PreemptNever
		if name == names.PriorityClassHigh {
			policy = corev1.PreemptLowerPriority
		}
		w.space.PriorityClasses = append(w.space.PriorityClasses, schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: &policy})
	}
	return w
}

// facts are what a diagnosis of the world is made from.
func (w *world) facts() diagnosis.Facts {
	job := w.job
	job.Template = &corev1.PodTemplateSpec{ObjectMeta: w.template.ObjectMeta, Spec: w.template.Spec}
	f := diagnosis.Facts{Job: job, Others: w.others, Space: &w.space}
	f.Cluster = snapshot.Snapshot{
		Now: noon, Nodes: w.nodes, Pods: append(w.holders, w.placed...), GPUPools: w.pools,
		Lease: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: noon},
		}},
	}
	f.Pods = append(f.Pods, w.placed...)
	for i := range w.members {
		if !w.unmade {
			f.Pods = append(f.Pods, w.waiting(i))
		}
	}
	return f
}

// waiting is a pod of the job that the scheduler has refused.
func (w *world) waiting(number int) corev1.Pod {
	pod := *w.template.DeepCopy()
	pod.Name, pod.Namespace = "train-"+string(rune('a'+number)), "team"
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[names.LabelJob] = "train"
	for _, class := range w.space.PriorityClasses {
		if class.Name == pod.Spec.PriorityClassName {
			pod.Spec.Priority, pod.Spec.PreemptionPolicy = ptr.To(class.Value), class.PreemptionPolicy
		}
	}
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: w.verdict,
	}}
	return pod
}

// on is a pod of another job on a node.
func (w *world) on(node, class string, gpus int64) corev1.Pod {
	pod := fixture.Pod("holder-"+node).GPUs(gpus).Label(names.LabelJob, "other").Label("app", "other").Obj()
	pod.Namespace, pod.Spec.NodeName, pod.Status.Phase = "other", node, corev1.PodRunning
	for i := range w.space.PriorityClasses {
		if known := &w.space.PriorityClasses[i]; known.Name == class {
			pod.Spec.PriorityClassName, pod.Spec.Priority = class, &known.Value
		}
	}
	return *pod
}
