package situations

import (
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// Noon is the time of all situations.
var Noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// The job of a situation.
const (
	jobName   = "train"
	namespace = "team"
	jobPool   = "train-pool"
)

// World is a cluster with one job, as the API server has it. The job waits for its turn, until setups change that.
type World struct {
	// meta is the metadata of the job's object, template what its pods are made from, spec and status those of a Job.
	meta     metav1.ObjectMeta
	template *corev1.Pod
	spec     batchv1.JobSpec
	status   batchv1.JobStatus
	// service is the Deployment that the job is instead, nil for a Job.
	service *appsv1.Deployment
	nodes   []corev1.Node
	// holders are the pods of others, placed those of the job that have a node or have had one.
	holders, placed []corev1.Pod
	// others are other jobs of the namespace.
	others []batchv1.Job
	events []corev1.Event
	// space is the rest of the job's namespace, cluster the rest of the cluster.
	space, cluster snapshot.Snapshot
	// unmade is true if no pod of the job waits for a node, members are how many do. Without a verdict no scheduler has looked at them.
	unmade    bool
	members   int32
	verdict   string
	precedent int
	phases    []func(*corev1.Pod)
}

// newWorld returns a job whose only pod waits on a node that is free.
func newWorld() *World {
	template := fixture.Pod(jobName).GPUs(4).Pool(jobPool).Type("A100-80G").CPU(4).Obj()
	template.Spec.SchedulerName, template.Spec.PriorityClassName = names.SchedulerName, names.PriorityClassMedium
	template.Labels = map[string]string{names.LabelJob: jobName, names.LabelJobType: "training"}
	w := &World{template: template, members: 1, precedent: len(verdictOrder)}
	w.meta = metav1.ObjectMeta{
		Name: jobName, Namespace: namespace, UID: "job", CreationTimestamp: metav1.NewTime(Noon.Add(-time.Hour)), Annotations: map[string]string{},
		Labels: map[string]string{names.LabelJob: jobName, names.LabelJobType: "training", names.LabelPriority: "medium"},
	}
	w.spec.BackoffLimit = ptr.To[int32](0)
	w.status.StartTime = ptr.To(metav1.NewTime(Noon.Add(-time.Hour)))
	w.nodes = []corev1.Node{*fixture.Node("n1").Pool(jobPool).GPUs(8, "A100-80G").Label(names.LabelRack, "r1").Obj()}
	for name, value := range map[string]int32{names.PriorityClassHigh: 1000, names.PriorityClassMedium: 500, names.PriorityClassLow: 100} {
		policy := corev1.PreemptNever
		if name == names.PriorityClassHigh {
			policy = corev1.PreemptLowerPriority
		}
		w.space.PriorityClasses = append(w.space.PriorityClasses, schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: &policy})
	}
	w.cluster.Lease = leaseRenewed(Noon)
	return w
}

// leaseRenewed is the scheduler's lease, which its leader renewed last at a time.
func leaseRenewed(at time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: at},
	}}
}

// ownObjects are the job's own objects and events.
func (w *World) ownObjects() *snapshot.Snapshot {
	out := &snapshot.Snapshot{Now: Noon, Events: w.events, Pods: slices.Clone(w.placed)}
	template := corev1.PodTemplateSpec{ObjectMeta: *w.template.ObjectMeta.DeepCopy(), Spec: *w.template.Spec.DeepCopy()}
	template.Name = ""
	if w.service != nil {
		service := w.service.DeepCopy()
		service.ObjectMeta, service.Spec.Template = *w.meta.DeepCopy(), template
		out.Deployments = []appsv1.Deployment{*service}
	} else {
		job := batchv1.Job{ObjectMeta: *w.meta.DeepCopy(), Spec: *w.spec.DeepCopy(), Status: *w.status.DeepCopy()}
		job.Spec.Template, job.Spec.Parallelism, job.Spec.Completions = template, &w.members, &w.members
		out.Jobs = []batchv1.Job{job}
	}
	for i := range w.members {
		if !w.unmade {
			out.Pods = append(out.Pods, w.waitingPod(i))
		}
	}
	return out
}

// Objects are all objects of the world, as lists and queues are made from.
func (w *World) Objects() *snapshot.Snapshot {
	out := w.ownObjects()
	out.Jobs, out.Pods = append(out.Jobs, w.others...), append(out.Pods, w.holders...)
	out.Nodes, out.Quotas, out.Lease = w.nodes, slices.Clone(w.space.Quotas), w.cluster.Lease
	for i := range out.Quotas {
		out.Quotas[i].Namespace = namespace
	}
	out.GPUPools, out.GPUReservations, out.GPUQuotas = w.cluster.GPUPools, w.cluster.GPUReservations, w.cluster.GPUQuotas
	return out
}

// Job is the job as lists have it.
func (w *World) Job() inventory.Job {
	jobs := inventory.Build(w.Objects()).Jobs
	return jobs[slices.IndexFunc(jobs, func(j inventory.Job) bool { return j.Name == jobName })]
}

// Facts are what a diagnosis of the job is made from.
func (w *World) Facts() diagnosis.Facts {
	own := w.ownObjects()
	out := diagnosis.Facts{Job: inventory.BuildDetails(own)[0], Pods: own.Pods, Space: &w.space, Cluster: w.cluster}
	if len(w.others) > 0 {
		out.Others = inventory.Build(&snapshot.Snapshot{Jobs: slices.Concat(own.Jobs, w.others), Pods: own.Pods}).Jobs
	}
	out.Cluster.Now, out.Cluster.Nodes = Noon, w.nodes
	out.Cluster.Pods = slices.DeleteFunc(slices.Concat(w.holders, w.placed), func(pod corev1.Pod) bool {
		return pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed
	})
	return out
}

// waitingPod is a pod of the job without a node.
func (w *World) waitingPod(number int32) corev1.Pod {
	pod := *w.template.DeepCopy()
	pod.Name, pod.Namespace, pod.UID = jobName+"-"+string('a'+number), namespace, types.UID("pod-"+string('a'+number))
	pod.CreationTimestamp = metav1.NewTime(Noon.Add(-time.Hour))
	pod.Labels = maps.Clone(pod.Labels)
	for _, class := range w.space.PriorityClasses {
		if class.Name == pod.Spec.PriorityClassName {
			pod.Spec.Priority, pod.Spec.PreemptionPolicy = ptr.To(class.Value), class.PreemptionPolicy
		}
	}
	pod.Status.Phase = corev1.PodPending
	if w.verdict != "" {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: w.verdict,
		}}
	}
	for _, change := range w.phases {
		change(&pod)
	}
	return pod
}

// placePod adds a pod of the job that is on the first node.
func (w *World) placePod(change func(*corev1.Pod)) {
	pod := w.waitingPod(int32(10 + len(w.placed)))
	pod.Spec.NodeName, pod.Status.Conditions = "n1", nil
	change(&pod)
	w.placed = append(w.placed, pod)
}

// holderOn is a running pod of another job on a node.
func (w *World) holderOn(node, class string, gpus int64) corev1.Pod {
	pod := fixture.Pod("holder-"+node).GPUs(gpus).Label(names.LabelJob, "other").Label(names.LabelJobType, "training").Label("app", "other").Obj()
	pod.Namespace, pod.Spec.NodeName, pod.Status.Phase, pod.UID = "other", node, corev1.PodRunning, types.UID("holder-"+node)
	for i := range w.space.PriorityClasses {
		if known := &w.space.PriorityClasses[i]; known.Name == class {
			pod.Spec.PriorityClassName, pod.Spec.Priority = class, &known.Value
		}
	}
	return *pod
}

// verdictOrder are the parts of a pod in the order in which the scheduler looks at them: of several setups it says what comes first.
var verdictOrder = []string{"claim", "quota", "pool", "type", "gang", "node", "room"}

// sayVerdict has the scheduler say of the job's pods what it says about a part of them, unless it has said something that comes first.
func (w *World) sayVerdict(part, verdict string) {
	if at := slices.Index(verdictOrder, part); at < w.precedent {
		w.verdict, w.precedent = verdict, at
	}
}

// refusePods has the API server refuse the job's pods with a message.
func (w *World) refusePods(message string) {
	w.unmade = true
	w.events = append(w.events, corev1.Event{
		Type: corev1.EventTypeWarning, Reason: "FailedCreate", Message: message, LastTimestamp: metav1.NewTime(Noon.Add(-time.Minute)),
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: jobName, UID: w.meta.UID},
	})
}
