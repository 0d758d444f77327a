package inventory

import (
	"cmp"
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// groupPods groups pods by job: those of jobs of gpuctl, and those of workloads that our scheduler places and that ask for GPUs. Pods without GPUs
// that belong to such a workload, such as the head of a RayCluster, are part of it.
func groupPods(pods []corev1.Pod) (made, foreign map[jobKey][]corev1.Pod) {
	made, foreign = map[jobKey][]corev1.Pod{}, map[jobKey][]corev1.Pod{}
	asks := map[jobKey]bool{}
	for i := range pods {
		pod := &pods[i]
		if gang.IsMadeByGpuctl(pod) {
			if key, ok := findJobKey(&pod.ObjectMeta); ok {
				made[key] = append(made[key], *pod)
			}
			continue
		}
		if !names.IsOurScheduler(pod.Spec.SchedulerName) {
			continue
		}
		key := workloadKey(pod)
		foreign[key] = append(foreign[key], *pod)
		asks[key] = asks[key] || asksGPUs(pod)
	}
	for key := range foreign {
		if !asks[key] {
			delete(foreign, key)
		}
	}
	return made, foreign
}

// podJobKey is the key of the job of a pod, and the zero value for a pod of a job of gpuctl that lacks a label.
func podJobKey(pod *corev1.Pod) jobKey {
	if gang.IsMadeByGpuctl(pod) {
		key, _ := findJobKey(&pod.ObjectMeta)
		return key
	}
	return workloadKey(pod)
}

// HasPod reports whether a pod is one of the job's.
func (j *Job) HasPod(pod *corev1.Pod) bool {
	return podJobKey(pod) == jobKey{j.Namespace, j.Kind, j.Name}
}

// addWorkloadUIDs adds those of the object of a workload, as far as events name it: its pods may name only the objects between.
func addWorkloadUIDs(uids map[types.UID]bool, events []corev1.Event, job *Job) {
	for i := range events {
		if about := &events[i].InvolvedObject; about.Namespace == job.Namespace && about.Kind == job.Object.Kind && about.Name == job.Object.Name {
			uids[about.UID] = true
		}
	}
}

// workloadKey is the key of the workload of a pod, whoever made it.
func workloadKey(pod *corev1.Pod) jobKey {
	w := gang.WorkloadOf(pod)
	return jobKey{namespace: pod.Namespace, kind: w.Kind, name: w.Name}
}

func asksGPUs(pod *corev1.Pod) bool {
	request, err := gpu.RequestOf(pod)
	return err != nil || !request.IsZero()
}

// foreignJobKey is the key of a Job that gpuctl did not make; false for a Job that belongs to another workload, has another scheduler, or asks for no
// GPUs.
func foreignJobKey(job *batchv1.Job) (jobKey, bool) {
	pod := templatePod(&job.Spec.Template)
	owner := metav1.GetControllerOfNoCopy(job)
	if owner != nil && owner.Kind != "CronJob" || job.Labels[names.LabelJob] != "" || gang.IsMadeByGpuctl(pod) || !names.IsOurScheduler(pod.Spec.SchedulerName) || !asksGPUs(pod) {
		return jobKey{}, false
	}
	return jobKey{namespace: job.Namespace, kind: gang.KindJob, name: job.Name}, true
}

// buildForeignJob is a Job of Kubernetes that gpuctl did not make.
func (q quotasByNamespace) buildForeignJob(key jobKey, job *batchv1.Job, pods []corev1.Pod, creation map[types.UID]creationFailure) Job {
	out := q.buildBatchJob(key, job, pods, creation)
	out.Foreign, out.Priority = true, names.PriorityOf(job.Spec.Template.Spec.PriorityClassName)
	return out
}

// fromForeignPods is a workload of which only the pods are read: its operator's object says how many there should be, and makes all of them at once.
func fromForeignPods(key jobKey, pods []corev1.Pod) Job {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	first := &pods[max(0, slices.IndexFunc(pods, func(pod corev1.Pod) bool { return asksGPUs(&pod) }))]
	out := newJob(key, &first.ObjectMeta, &corev1.PodTemplateSpec{ObjectMeta: first.ObjectMeta, Spec: first.Spec}, pods)
	out.Foreign, out.Object = true, workloadRef(key, pods)
	out.Priority = names.PriorityOf(first.Spec.PriorityClassName)
	for i := range pods {
		if created := pods[i].CreationTimestamp.Time; created.Before(out.Created) {
			out.Created = created
		}
	}
	alive := slices.DeleteFunc(slices.Clone(out.Pods), func(p Pod) bool { return p.hasEnded() || p.status == StatusTerminating })
	out.Desired, out.GPUs = int32(len(alive)), askedGPUs(pods, alive)
	switch {
	case len(alive) > 0:
		out.Ready = countPods(alive, func(p Pod) bool { return p.Ready })
		out.Status, out.Trouble = judgePods(out.Pods, out.Desired, Trouble{})
	default:
		out.Desired, out.GPUs = int32(len(pods)), askedGPUs(pods, out.Pods)
		out.judgeEndedPods()
	}
	out.Nodes = jobNodes(out.Pods, out.Finished != nil)
	return out
}

// judgeEndedPods decides the status of a workload whose pods have all ended, or are terminating.
func (j *Job) judgeEndedPods() {
	j.Ready = countPods(j.Pods, func(p Pod) bool { return p.status == StatusSucceeded })
	failed := slices.DeleteFunc(slices.Clone(j.Pods), func(p Pod) bool { return p.status != StatusFailed })
	switch {
	case slices.ContainsFunc(j.Pods, func(p Pod) bool { return p.status == StatusTerminating }):
		j.Status = StatusTerminating
		return
	case len(failed) > 0:
		last := slices.MaxFunc(failed, func(a, b Pod) int { return a.Created.Compare(b.Created) })
		j.Status, j.Trouble = StatusFailed, last.Trouble
	default:
		j.Status = StatusSucceeded
	}
	for i := range j.Pods {
		for _, container := range j.Pods[i].Containers {
			if container.Ended != nil && (j.Finished == nil || container.Ended.After(*j.Finished)) {
				j.Finished = container.Ended
			}
		}
	}
}

// askedGPUs is what some of the pods ask together.
func askedGPUs(pods []corev1.Pod, some []Pod) int64 {
	counted, sum := map[string]bool{}, int64(0)
	for _, pod := range some {
		counted[pod.Name] = true
	}
	for i := range pods {
		if request, err := gpu.RequestOf(&pods[i]); err == nil && counted[pods[i].Name] {
			sum = amounts.Add(sum, amounts.Add(request.Whole, request.Shared))
		}
	}
	return sum
}

// workloadRef is the object of a workload. Its version is known if it is the controller of a pod, or the pod itself.
func workloadRef(key jobKey, pods []corev1.Pod) ObjectRef {
	out := ObjectRef{Kind: key.kind, Name: key.name}
	if key.kind == gang.KindPod {
		out.APIVersion, out.UID = "v1", pods[0].UID
		return out
	}
	for i := range pods {
		if owner := metav1.GetControllerOfNoCopy(&pods[i]); owner != nil && owner.Kind == key.kind && owner.Name == key.name {
			out.APIVersion, out.UID = owner.APIVersion, owner.UID
		}
	}
	return out
}

// foreignQueries is what workloads are built from that gpuctl did not make. Their names are on no label, so all of the namespace are read.
func (q JobQuery) foreignQueries() []snapshot.Query {
	scope := snapshot.Scope{Namespace: q.Namespace, Labels: q.Selector}
	return []snapshot.Query{snapshot.ForeignPods(scope), snapshot.ForeignJobs(scope)}
}

// readObjects reads the results of queries for jobs, and what foreign workloads are built from if the query selects them.
func (q JobQuery) readObjects(ctx context.Context, client kubernetes.Interface, queries []snapshot.Query) (*snapshot.Snapshot, error) {
	if q.Foreign && q.Name == "" {
		queries = append(queries, q.foreignQueries()...)
		queries = append(queries, q.kueueQueries()...)
	}
	read, err := snapshot.Read(ctx, client, queries...)
	if err != nil {
		return nil, err
	}
	if q.Foreign && q.Name != "" {
		err = q.readMore(ctx, client, read)
	}
	if read.Now.IsZero() {
		read.Now = time.Now()
	}
	return q.withForeign(read), err
}

// readMore reads what else there may be of a named job: foreign workloads if nothing of that name was found, and Kueue's Workloads, which are those of
// the whole namespace, only if Kueue may hold the job back.
func (q JobQuery) readMore(ctx context.Context, client kubernetes.Interface, read *snapshot.Snapshot) error {
	var queries []snapshot.Query
	isMissing := len(read.Jobs)+len(read.Deployments)+len(read.Pods) == 0
	if isMissing {
		queries = q.foreignQueries()
	}
	if isMissing || mayWaitAtKueue(read) {
		queries = append(queries, q.kueueQueries()...)
	}
	others, err := snapshot.Read(ctx, client, queries...)
	if err != nil {
		return err
	}
	if isMissing {
		read.ForeignPods, read.ForeignJobs = others.ForeignPods, others.ForeignJobs
	}
	read.KueueWorkloads = others.KueueWorkloads
	if !others.HasPart(snapshot.PartKueueWorkloads) {
		read.MarkUnread(snapshot.PartKueueWorkloads)
	}
	return nil
}

// mayWaitAtKueue reports whether a job is suspended, or one of its pods gated by Kueue.
func mayWaitAtKueue(read *snapshot.Snapshot) bool {
	return slices.ContainsFunc(read.Jobs, func(job batchv1.Job) bool { return ptr.Deref(job.Spec.Suspend, false) }) ||
		slices.ContainsFunc(read.Pods, func(pod corev1.Pod) bool { return isGatedByKueue(&pod) })
}

// kueueQueries is what Kueue says of the jobs of a query; it has no labels of theirs.
func (q JobQuery) kueueQueries() []snapshot.Query {
	if !q.Foreign || q.Selector != "" {
		return nil
	}
	return []snapshot.Query{snapshot.KueueWorkloads(q.Namespace).IfAllowed()}
}

// selectNamed returns the jobs of the query's name: Kueue's objects are read for all names, as they show who comes before.
func (q JobQuery) selectNamed(jobs []Job) []Job {
	return slices.DeleteFunc(jobs, func(job Job) bool { return q.Name != "" && job.Name != q.Name })
}

// watchQueries is what the jobs of a query are watched by, once it is known which there are.
func (q JobQuery) watchQueries(now []Job) []snapshot.Query {
	named := q.Name != ""
	switch {
	case q.Foreign && named && len(now) > 0 && now[0].Foreign:
		return q.foreignQueries()
	case q.Foreign && !named:
		return append(q.jobQueries(), q.foreignQueries()...)
	}
	return q.jobQueries()
}

// withForeign adds the pods and Jobs of foreign workloads that were queried by themselves to all others, as far as they belong to a workload of the
// query's name.
func (q JobQuery) withForeign(read *snapshot.Snapshot) *snapshot.Snapshot {
	out := *read
	out.ForeignPods, out.ForeignJobs = nil, nil
	pods := slices.DeleteFunc(slices.Clone(read.ForeignPods), func(pod corev1.Pod) bool {
		return gang.IsMadeByGpuctl(&pod) || q.Name != "" && gang.WorkloadOf(&pod).Name != q.Name
	})
	jobs := slices.DeleteFunc(slices.Clone(read.ForeignJobs), func(job batchv1.Job) bool {
		return job.Labels[names.LabelJob] != "" || q.Name != "" && job.Name != q.Name
	})
	if len(pods) > 0 {
		out.Pods = slices.Concat(read.Pods, pods)
	}
	if len(jobs) > 0 {
		out.Jobs = slices.Concat(read.Jobs, jobs)
	}
	return &out
}

// ForeignError reports that gpuctl does not change a workload that it did not make.
type ForeignError struct{ Namespace, Kind, Name string }

func (e *ForeignError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError]. It says what to type instead, as far as the kind knows the change.
func (e *ForeignError) Message() phrase.Text {
	object, changes := gang.KubectlName(e.Kind, e.Name), gang.ChangesOf(e.Kind)
	text := phrase.Textf("%s %s was not made by gpuctl, which shows it and does not change it", e.Kind, e.Name)
	if patch := changes.SuspendPatch(); patch != "" {
		text = text.Addf("\nPause it: kubectl -n %s patch %s --type=merge -p '%s'", e.Namespace, object, patch)
	}
	if changes.Scales {
		text = text.Addf("\nScale it: kubectl -n %s scale %s --replicas=N", e.Namespace, object)
	}
	return text.Addf("\nDelete it: kubectl -n %s delete %s", e.Namespace, object)
}
