package inventory

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Job is one job, whatever Kubernetes runs it as. It is found by labels and owners, never by guessing from names.
type Job struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Kind is training, inference, notebook or compute, and of a workload that gpuctl did not make the kind of its object, such as RayCluster.
	Kind   string `json:"kind"`
	Status Status `json:"status"`
	// Trouble explains why a job does not run, or not completely.
	Trouble
	// Ready is how many pods run and are ready, or have succeeded.
	Ready int32 `json:"ready"`
	// Desired is how many pods there should be.
	Desired int32 `json:"desired"`
	// DependsOn are the jobs of its namespace that it starts after, After how they have to end, ok or any, and WaitsFor those
	// for which it still waits.
	DependsOn []string `json:"dependsOn,omitempty"`
	After     string   `json:"after,omitempty"`
	WaitsFor  []string `json:"waitsFor,omitempty"`
	// QuotaBehind is the job that comes before this gang for a quota of the namespace. Until that job has all of its pods, this one has none.
	QuotaBehind string `json:"quotaBehind,omitempty"`
	// Array is the progress of a job with many tasks, nil for any other. Ready, Desired and GPUs are of the tasks that run at a time.
	Array *Array `json:"array,omitempty"`
	// GPUs is what all desired pods ask together, whole GPUs or slots of shared ones.
	GPUs int64 `json:"gpus"`
	// PodGPUs is what each pod asks.
	PodGPUs int64 `json:"-"`
	// MIG is what each pod asks of MIG slices.
	MIG []AskedProfile `json:"mig,omitempty"`
	// GPUTypes are the types the job takes, the preferred first. Empty takes any.
	GPUTypes []string `json:"gpuTypes,omitempty"`
	Pool     string   `json:"pool,omitempty"`
	Priority string   `json:"priority,omitempty"`
	// User is the user who submitted the job, as the API server knows them; "" if not recorded.
	User string `json:"user,omitempty"`
	// Nodes are the nodes of the pods that hold GPUs; once the job has finished, those that it ran on.
	Nodes   []string  `json:"nodes,omitempty"`
	Created time.Time `json:"created"`
	// Started is when the first of its existing pods started on its node; nil if none has.
	Started  *time.Time `json:"started,omitempty"`
	Finished *time.Time `json:"finished,omitempty"`
	// Restarts is how often it was restarted after a failure: containers in their pods, and replacements of failed pods.
	Restarts int32     `json:"restarts"`
	Object   ObjectRef `json:"object"`
	// Foreign workloads were not made by gpuctl, which shows them and does not change them.
	Foreign bool `json:"foreign,omitempty"`
	// Kueue is where the job stands that Kueue holds back, as far as Kueue's Workloads were read; nil for any other.
	Kueue *KueuePlace `json:"kueue,omitempty"`
	// Excess is the exhausted quota of the namespace that prevents the creation of pods of the job.
	Excess *quota.Excess `json:"-"`
	// Refused is how many pods that keeps out.
	Refused int32 `json:"-"`
	// Refusal is the API server's last rejection of a pod of the job, in its words; "" if none applies.
	Refusal string `json:"-"`
	// ControllerObserved is true if a controller of Kubernetes has processed the job.
	ControllerObserved bool  `json:"-"`
	Pods               []Pod `json:"pods,omitempty"`
}

// ObjectRef is the Kubernetes object that a job is. It is zero when only pods of the job are left.
type ObjectRef struct {
	APIVersion string    `json:"apiVersion,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Name       string    `json:"name,omitempty"`
	UID        types.UID `json:"uid,omitempty"`
}

// jobKey identifies a job. The kind is part of it because a training and a RayCluster of one name can be there.
type jobKey struct{ namespace, kind, name string }

func findJobKey(meta *metav1.ObjectMeta) (jobKey, bool) {
	key := jobKey{namespace: meta.Namespace, kind: meta.Labels[names.LabelJobType], name: meta.Labels[names.LabelJob]}
	return key, key.kind != "" && key.name != ""
}

func buildJobs(objects *snapshot.Snapshot) []Job {
	pods, foreign := groupPods(objects.Pods)
	creation, quotas := creationFailures(objects.Events), groupQuotas(objects.Quotas)
	out := make([]Job, 0, len(objects.Jobs)+len(objects.Deployments))
	for i := range objects.Jobs {
		batchJob := &objects.Jobs[i]
		if key, ok := findJobKey(&batchJob.ObjectMeta); ok {
			out = append(out, quotas.buildBatchJob(key, batchJob, pods[key], creation))
			delete(pods, key)
		} else if key, ok := foreignJobKey(batchJob); ok {
			out = append(out, quotas.buildForeignJob(key, batchJob, foreign[key], creation))
			delete(foreign, key)
		}
	}
	for i := range objects.Deployments {
		if key, ok := findJobKey(&objects.Deployments[i].ObjectMeta); ok {
			job := fromDeployment(key, &objects.Deployments[i], pods[key])
			quotas.judgeDeployment(&job, &objects.Deployments[i])
			out = append(out, job)
			delete(pods, key)
		}
	}
	for key, left := range pods {
		out = append(out, fromPods(key, left))
	}
	for key, left := range foreign {
		out = append(out, fromForeignPods(key, left))
	}
	markUnheard(out, objects)
	out = addHeldByKueue(out, objects.KueueWorkloads)
	slices.SortFunc(out, compareJobs)
	return out
}

// buildBatchJob is the job that a Job of Kubernetes runs, with the quota that keeps its pods out.
func (q quotasByNamespace) buildBatchJob(key jobKey, job *batchv1.Job, pods []corev1.Pod, creation map[types.UID]creationFailure) Job {
	out := fromBatchJob(key, job, pods, creation[job.UID])
	q.judgeBatchJob(&out, job)
	return out
}

func compareJobs(a, b Job) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
}

func fromBatchJob(key jobKey, job *batchv1.Job, pods []corev1.Pod, creation creationFailure) Job {
	out := newJob(key, &job.ObjectMeta, &job.Spec.Template, pods)
	out.Object = ObjectRef{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID}
	out.Desired, out.Array = desiredPods(job), buildArray(job, out.Pods)
	alive := out.Pods
	out.Finished = finishTime(job)
	if out.Array != nil {
		alive = withoutSucceeded(out.Pods)
		if out.Finished == nil { // a finished job keeps its original request
			out.Desired = min(out.Array.AtOnce, out.Array.remainingTasks())
			out.Array.countRunningTasks(out.Desired, alive)
		}
	}
	out.GPUs = out.PodGPUs * int64(out.Desired)
	out.Ready = min(out.Desired, countPods(alive, func(p Pod) bool {
		return p.Ready || p.Phase == string(corev1.PodSucceeded)
	}))
	out.After, out.DependsOn, out.WaitsFor = jobDependencies(job)
	out.QuotaBehind = quotaBehind(job)
	refused := creation.currentTrouble(out.Pods)
	out.Status, out.Trouble = judgeBatchJob(job, alive, out.Desired, refused)
	out.recordRefusal(refused)
	out.ControllerObserved = job.Status.StartTime != nil || len(job.Status.Conditions) > 0
	out.judgeWhole(job)
	if out.Status == StatusSucceeded {
		out.Ready = out.Desired // its pods may be gone by now
	}
	out.Nodes = jobNodes(out.Pods, out.Finished != nil)
	out.Restarts += countReplacedPods(job, out.Array)
	return out
}

// countReplacedPods is how many pods of a Job were made in place of others that failed.
func countReplacedPods(job *batchv1.Job, array *Array) int32 {
	lost := int32(0) // the last pods of a final failure, which are not replaced: with one member of a gang all others end
	switch {
	case array != nil:
		lost = array.Failed
	case slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue
	}):
		lost = desiredPods(job)
	}
	return max(job.Status.Failed-lost, 0)
}

// desiredPods is how many pods of a Job run at a time: its parallelism, or what is left of its completions.
func desiredPods(job *batchv1.Job) int32 {
	parallelism := int32(1)
	if job.Spec.Parallelism != nil {
		parallelism = *job.Spec.Parallelism
	}
	if job.Spec.Completions != nil {
		return min(parallelism, *job.Spec.Completions)
	}
	return parallelism
}

func fromDeployment(key jobKey, deployment *appsv1.Deployment, pods []corev1.Pod) Job {
	out := newJob(key, &deployment.ObjectMeta, &deployment.Spec.Template, pods)
	out.Object = ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment.Name, UID: deployment.UID}
	out.Desired = 1
	if deployment.Spec.Replicas != nil {
		out.Desired = *deployment.Spec.Replicas
	}
	out.GPUs = out.PodGPUs * int64(out.Desired)
	out.Ready = deployment.Status.ReadyReplicas
	refused := deploymentRefusal(deployment)
	out.Status, out.Trouble = judgeDeployment(deployment, out.Pods, refused)
	out.recordRefusal(refused)
	out.ControllerObserved = deployment.Status.ObservedGeneration >= deployment.Generation
	out.judgeWhole(deployment)
	out.Nodes = jobNodes(out.Pods, false)
	return out
}

// fromPods is a job of which only pods are left, while Kubernetes cleans up after a deletion.
func fromPods(key jobKey, pods []corev1.Pod) Job {
	template := corev1.PodTemplateSpec{ObjectMeta: pods[0].ObjectMeta, Spec: pods[0].Spec}
	out := newJob(key, &pods[0].ObjectMeta, &template, pods)
	out.Desired = int32(len(pods))
	out.GPUs = out.PodGPUs * int64(out.Desired)
	out.Ready = countPods(out.Pods, func(p Pod) bool { return p.Ready })
	out.Status = StatusTerminating
	out.Trouble = Trouble{Reason: string(reason.Deleted), Message: "the job is gone, its pods are still there"}
	for _, pod := range out.Pods {
		if pod.Reason == reasonNodeLost {
			out.Trouble = pod.Trouble
		}
	}
	out.Nodes = jobNodes(out.Pods, false)
	return out
}

// newJob fills in what every kind has.
func newJob(key jobKey, meta *metav1.ObjectMeta, template *corev1.PodTemplateSpec, pods []corev1.Pod) Job {
	pod := withAdmittedGPUs(templatePod(template), pods)
	out := Job{
		Name:      key.name,
		Namespace: key.namespace,
		Kind:      key.kind,
		Priority:  meta.Labels[names.LabelPriority],
		User:      meta.Annotations[names.AnnotationUser],
		Pool:      cmp.Or(meta.Labels[names.LabelPool], gpu.PodPool(pod)),
		Created:   meta.CreationTimestamp.Time,
		Pods:      BuildPods(pods),
	}
	if request, err := gpu.RequestOf(pod); err == nil {
		out.PodGPUs = request.Whole + request.Shared
		if request.MIG > 0 {
			out.MIG = ProfilesOf(pod)
		}
	}
	if types, err := gpu.PodTypes(pod); err == nil {
		out.GPUTypes = types.AcceptedNames()
	}
	for i := range out.Pods {
		pod := &out.Pods[i]
		out.Restarts += pod.Restarts
		if pod.Started != nil && (out.Started == nil || pod.Started.Before(*out.Started)) {
			out.Started = pod.Started
		}
	}
	return out
}

func finishTime(job *batchv1.Job) *time.Time {
	for _, condition := range job.Status.Conditions {
		finished := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		if finished && condition.Status == corev1.ConditionTrue {
			return &condition.LastTransitionTime.Time
		}
	}
	return nil
}

// jobNodes returns the nodes of pods that have not ended, or of all when the job has.
func jobNodes(pods []Pod, finished bool) []string {
	var out []string
	for _, pod := range pods {
		if pod.Node != "" && (finished || !pod.hasEnded()) {
			out = append(out, pod.Node)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (p Pod) hasEnded() bool { return p.status == StatusSucceeded || p.status == StatusFailed }

func countPods(pods []Pod, is func(Pod) bool) int32 {
	var n int32
	for _, pod := range pods {
		if is(pod) {
			n++
		}
	}
	return n
}

// Failure is a container that ended badly.
type Failure struct {
	Pod       string
	Container string
	ExitCode  int32
}

// FirstFailure returns the container that failed first, which is the one to examine. When one rank of a job of several nodes fails, the others are
// killed, and their exit codes are not informative. Neither are those of evicted pods.
func (j Job) FirstFailure() (Failure, bool) {
	var first Failure
	var earliest ContainerState
	for _, pod := range j.Pods {
		if pod.disrupted {
			continue
		}
		for _, container := range pod.Containers {
			if container.Ended == nil || container.ExitCode == nil || *container.ExitCode == 0 {
				continue
			}
			if earliest.Ended == nil || container.Ended.Before(*earliest.Ended) {
				earliest = container
				first = Failure{Pod: pod.Name, Container: container.Name, ExitCode: *container.ExitCode}
			}
		}
	}
	return first, earliest.Ended != nil
}
