package simulate

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// ArrivalsOfJobs returns the pods of a list of jobs, such as Philly's, when they came, for as long as they ran. A job of
// more GPUs than a node has is a gang: pods of 8 GPUs, and one with the rest, which start together.
func ArrivalsOfJobs(jobs []*trace.Job) []Arrival {
	var arrivals []Arrival
	for _, job := range jobs {
		gang, group := job.Gang(), groupOfJob(job)
		for index := range gang.PodCount() {
			arrivals = append(arrivals, Arrival{
				Pod: podOfJob(job, index, group), Group: group, At: job.Submit, Lifetime: max(job.Runtime, time.Second),
			})
		}
	}
	return arrivals
}

// groupOfJob returns the PodGroup of a job of several pods, nil for others.
func groupOfJob(job *trace.Job) *gangsv1.PodGroup {
	members := job.Gang().PodCount()
	if members < 2 {
		return nil
	}
	return &gangsv1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: traceNamespace, Name: "job-" + strconv.Itoa(job.ID)},
		Spec:       gangsv1.PodGroupSpec{MinMember: int32(members)}, //nolint:gosec // a job has some hundred pods at most
	}
}

func podOfJob(job *trace.Job, index int, group *gangsv1.PodGroup) *corev1.Pod {
	name := fmt.Sprintf("job-%d-%d", job.ID, index)
	gpus := corev1.ResourceList{names.ResourceGPU: *resource.NewQuantity(int64(job.Gang().GPUsOfPod(index)), resource.DecimalSI)}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: traceNamespace, Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{
			SchedulerName: names.SchedulerName,
			Containers:    []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: gpus, Limits: gpus}}},
		},
	}
	if group != nil {
		pod.Labels = map[string]string{}
		gang.SetGroup(pod.Labels, group.Name)
	}
	return pod
}
