package inventory

import (
	"cmp"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// ReasonHeldByKueue is the reason of a job that Kueue keeps suspended, or whose pods it gates, until it admits it.
const ReasonHeldByKueue = "HeldByKueue"

// kueueGate is the scheduling gate of pods that Kueue has not admitted.
const kueueGate = "kueue.x-k8s.io/admission"

// kueueQueue returns the queue of Kueue that holds a suspended Job back; "" for a Job that is in none, or that a user has paused.
func kueueQueue(job *batchv1.Job) string {
	if job.Annotations[names.AnnotationPausedAt] != "" {
		return ""
	}
	return job.Labels[names.LabelKueueQueue]
}

// isGatedByKueue reports whether Kueue holds a pod back from the scheduler.
func isGatedByKueue(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(gate corev1.PodSchedulingGate) bool { return gate.Name == kueueGate })
}

// kueueTrouble is the trouble of a job that Kueue holds back.
func kueueTrouble(queue string) Trouble {
	return Trouble{Reason: ReasonHeldByKueue, Message: fmt.Sprintf("Kueue holds it back in queue %s, and starts it when it admits it", queue)}
}

// kueuePlace is where the Workload of an object stands among those that Kueue has not admitted.
type kueuePlace struct {
	workload *unstructured.Unstructured
	queue    string
	// position is that among all which wait in the queue, 0 for a Workload that has its quota, or that was set to be inactive.
	position, waiting int
}

// KueuePlace is where a job stands that Kueue holds back.
type KueuePlace struct {
	Queue string `json:"queue" doc:"The LocalQueue"`
	// Position counts from 1; 0 is that of a job which has its quota, or was set to be inactive.
	Position int `json:"position,omitempty" doc:"From 1, in the order in which Kueue tries the queue; absent where Kueue has reserved its quota, or the Workload is inactive"`
	Waiting  int `json:"waiting,omitempty" doc:"How many wait in the queue"`
}

func (k kueuePlace) trouble() Trouble {
	if k.position == 0 {
		return kueueTrouble(k.queue)
	}
	return Trouble{Reason: ReasonHeldByKueue, Message: fmt.Sprintf("Kueue holds it back in queue %s, position %d of %d, and starts it when it admits it", k.queue, k.position, k.waiting)}
}

func (k kueuePlace) publicPlace() *KueuePlace {
	return &KueuePlace{Queue: k.queue, Position: k.position, Waiting: k.waiting}
}

// kueueLines returns the places of all objects that Kueue has not admitted. A queue is in the order in which Kueue tries it: by priority, then by age.
func kueueLines(workloads []unstructured.Unstructured) map[types.UID]kueuePlace {
	type queueKey struct{ namespace, name string }
	lines, out := map[queueKey][]*unstructured.Unstructured{}, map[types.UID]kueuePlace{}
	for i := range workloads {
		workload := &workloads[i]
		if hasCondition(workload, "Admitted") || hasCondition(workload, "Finished") {
			continue
		}
		queue, _, _ := unstructured.NestedString(workload.Object, "spec", "queueName")
		for _, owner := range workload.GetOwnerReferences() {
			out[owner.UID] = kueuePlace{workload: workload, queue: queue}
		}
		active, set, _ := unstructured.NestedBool(workload.Object, "spec", "active")
		if !hasCondition(workload, "QuotaReserved") && (active || !set) {
			key := queueKey{workload.GetNamespace(), queue}
			lines[key] = append(lines[key], workload)
		}
	}
	for key, line := range lines {
		slices.SortFunc(line, compareAtKueue)
		for i, workload := range line {
			for _, owner := range workload.GetOwnerReferences() {
				out[owner.UID] = kueuePlace{workload, key.name, i + 1, len(line)}
			}
		}
	}
	return out
}

func compareAtKueue(a, b *unstructured.Unstructured) int {
	first, _, _ := unstructured.NestedInt64(a.Object, "spec", "priority")
	second, _, _ := unstructured.NestedInt64(b.Object, "spec", "priority")
	return cmp.Or(cmp.Compare(second, first), a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
}

// hasCondition reports whether a condition of a Workload is true.
func hasCondition(workload *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(workload.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(condition any) bool {
		fields, _ := condition.(map[string]any)
		return fields["type"] == kind && fields["status"] == string(metav1.ConditionTrue)
	})
}

// placeAtKueue returns where a job that Kueue holds back stands, by its object or by one of its pods.
func placeAtKueue(lines map[types.UID]kueuePlace, job *Job) (kueuePlace, bool) {
	if place, known := lines[job.Object.UID]; known {
		return place, true
	}
	for i := range job.Pods {
		if place, known := lines[job.Pods[i].UID]; known {
			return place, true
		}
	}
	return kueuePlace{}, false
}

// KueueWorkloadOf returns the Workload of a job that Kueue holds back, nil for none.
func KueueWorkloadOf(workloads []unstructured.Unstructured, job *Job) *unstructured.Unstructured {
	place, _ := placeAtKueue(kueueLines(workloads), job)
	return place.workload
}

// addHeldByKueue says of each job that Kueue holds back where it stands, and adds the workloads that have no pods yet. Of a kind that is read by its
// objects the Workload adds nothing.
func addHeldByKueue(jobs []Job, workloads []unstructured.Unstructured) []Job {
	if len(workloads) == 0 {
		return jobs
	}
	lines, known := kueueLines(workloads), map[jobKey]bool{}
	for i := range jobs {
		known[jobKey{jobs[i].Namespace, jobs[i].Kind, jobs[i].Name}] = true
		if place, found := placeAtKueue(lines, &jobs[i]); found && jobs[i].Reason == ReasonHeldByKueue {
			jobs[i].Trouble, jobs[i].Kueue = place.trouble(), place.publicPlace()
		}
	}
	for _, place := range lines {
		job, ok := fromKueueWorkload(place)
		if key := (jobKey{job.Namespace, job.Kind, job.Name}); ok && !known[key] {
			known[key] = true
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// fromKueueWorkload is a workload of which no pod is there yet, as Kueue knows it; false for one that is read by its own object or pods, that has another
// scheduler, or that asks for no GPUs.
func fromKueueWorkload(place kueuePlace) (Job, bool) {
	owner := metav1.GetControllerOfNoCopy(place.workload)
	if owner == nil || owner.Kind == gang.KindJob || owner.Kind == gang.KindPod {
		return Job{}, false
	}
	sets := readPodSets(place.workload)
	first := slices.IndexFunc(sets, func(set podSet) bool { return asksGPUs(&set.pod) })
	if first < 0 || slices.ContainsFunc(sets, func(set podSet) bool { return !names.IsOurScheduler(set.pod.Spec.SchedulerName) }) {
		return Job{}, false
	}
	spec := sets[first].pod.Spec
	meta := &metav1.ObjectMeta{CreationTimestamp: place.workload.GetCreationTimestamp()}
	out := newJob(jobKey{place.workload.GetNamespace(), owner.Kind, owner.Name}, meta, &corev1.PodTemplateSpec{Spec: spec}, nil)
	out.Foreign, out.Status, out.Trouble, out.Kueue = true, StatusPending, place.trouble(), place.publicPlace()
	out.Object = ObjectRef{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID}
	out.Priority = names.PriorityOf(spec.PriorityClassName)
	for _, set := range sets {
		out.Desired += set.count
		if request, err := gpu.RequestOf(&set.pod); err == nil {
			out.GPUs = amounts.Add(out.GPUs, min(amounts.Add(request.Whole, request.Shared), maxPodGPUs)*int64(set.count))
		}
	}
	return out, true
}

// podSet are the pods of one role of a workload.
type podSet struct {
	pod   corev1.Pod
	count int32
}

// maxSetPods and maxPodGPUs bound what is counted of a Workload, far beyond what any cluster has.
const maxSetPods, maxPodGPUs = 1_000_000, 1_000_000

// readPodSets reads the roles of a Workload, as far as they can be read.
func readPodSets(workload *unstructured.Unstructured) (out []podSet) {
	sets, _, _ := unstructured.NestedSlice(workload.Object, "spec", "podSets")
	for _, set := range sets {
		fields, _ := set.(map[string]any)
		spec, _, _ := unstructured.NestedMap(fields, "template", "spec")
		count, _, _ := unstructured.NestedInt64(fields, "count")
		read := podSet{count: int32(min(max(count, 0), maxSetPods))} //nolint:gosec // it is bounded
		if runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &read.pod.Spec) == nil {
			out = append(out, read)
		}
	}
	return out
}
