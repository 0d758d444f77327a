// Package queue is the queue of jobs that wait for GPUs, in the order in which the scheduler tries them: by priority, then by time, the pods of a job
// together. Each pool has its own queue, because only jobs of one pool compete.
//
// The order defines which job is tried first, not which starts first: a job that fits now starts even if one before it does not fit. [Build] is pure;
// [Read] gathers what it needs.
package queue

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Entry is a waiting job, or a waiting pod that belongs to none. JSON keys are a contract.
type Entry struct {
	// Position is the position in the pool's queue, from 1. It is 0 for a job that is in none: something prevents the creation of its pods, or keeps the
	// scheduler from looking at them.
	Position  int    `json:"position"`
	Namespace string `json:"namespace"`
	// Name and Kind are the job's, or those of a workload that gpuctl did not make. A pod that belongs to none has its own name, and no kind.
	Name string `json:"name"`
	Kind string `json:"kind,omitempty"`
	// Replica is the part of the workload, of one whose replicas start each for itself, such as a LeaderWorkerSet.
	Replica string `json:"replica,omitempty"`
	Pool    string `json:"pool"`
	// Priority is the value that the scheduler sorts by, and PriorityClass its name.
	Priority      int32  `json:"priority"`
	PriorityClass string `json:"priorityClass,omitempty"`
	// Pods is how many pods wait, and GPUs their total request: whole GPUs or slots of shared ones. MIG is the request of each for MIG slices, which
	// GPUs does not count.
	Pods     int                      `json:"pods"`
	GPUs     int64                    `json:"gpus"`
	MIG      []inventory.AskedProfile `json:"mig,omitempty"`
	GPUTypes []string                 `json:"gpuTypes,omitempty"`
	// Since is when the first of the pods began to wait.
	Since time.Time `json:"since"`
	// JobsAhead and GPUsAhead count what is before this entry in the pool's queue.
	JobsAhead int   `json:"jobsAhead"`
	GPUsAhead int64 `json:"gpusAhead"`
	// Trouble is the scheduler's message of its last attempt.
	inventory.Trouble
	// MessageText is the trouble in every language, if it is one of our sentences.
	MessageText phrase.Text `json:"-"`
	// Cause is why the job does not start regardless of room, as a cause of gpuctl why; Trouble then describes it. It is empty for a job that waits
	// only for room. If a GPUQuota is exhausted, ETA, Earliest and Latest account for that as well.
	Cause reason.Cause `json:"cause,omitempty"`
	// ETA is when the job starts if every job before it uses all of its time limit; nil when that is unknown. Of pods that
	// start one by one, such as the tasks of an array, it is when the first does.
	ETA *time.Time `json:"eta,omitempty"`
	// Earliest and Latest bound the start with a probability of Confidence, by how long jobs like those before it have run. They are nil if too
	// little is known. See [Queue.EstimateStarts].
	Earliest   *time.Time `json:"earliest,omitempty"`
	Latest     *time.Time `json:"latest,omitempty"`
	Confidence float64    `json:"confidence,omitempty"`
	// Never is true if the nodes of the pool could not hold the job even if they were empty, if its request cannot be read, or if its quota is too
	// small. See gpuctl why.
	Never bool `json:"never,omitempty"`
	// Reclaims is true if a GPUQuota guarantees the job its GPUs, which others borrow. The borrowers are evicted for it, so it may start before ETA.
	Reclaims bool `json:"reclaims,omitempty"`

	demand entryDemand
}

// setBlocked records what blocks an entry regardless of room.
func (e *Entry) setBlocked(finding diagnosis.Finding) {
	e.Cause, e.ETA, e.Reclaims, e.demand.overQuota = finding.Cause, nil, false, false
	e.Trouble = inventory.Trouble{Reason: string(finding.Cause), Message: finding.Text}
	e.MessageText = finding.Message
}

// LocalizeMessage returns the entry with its message in a language.
func (e Entry) LocalizeMessage(language phrase.Language) Entry {
	if len(e.MessageText) > 0 {
		e.Message = e.MessageText.Localize(language)
	} else {
		e.Message = language.TranslateMessage(e.Message)
	}
	return e
}

// Queue has the queues of all pools. JSON keys are a contract.
type Queue struct {
	// Entries are sorted by pool, and in it by position.
	Entries []Entry `json:"items"`
	// Partial is true if the user may not read pods of other namespaces, so that positions count only one namespace.
	Partial bool `json:"partial,omitempty"`
	// Unread is what may not be read of all namespaces, or not at all.
	Unread []snapshot.Part `json:"-"`

	pools map[string]*pool
}

// key identifies what belongs together: the pods of one job, of one gang, or one pod.
type key struct{ namespace, kind, name, replica string }

func podJobKey(pod *corev1.Pod) key {
	w := gang.WorkloadOf(pod)
	return key{namespace: pod.Namespace, kind: w.JobKind(), name: w.Name, replica: gang.ReplicaOf(pod)}
}

// Build computes the queues at a time, from the pods, nodes and Jobs of a cluster. jobs are those of the cluster, some of which a quota may refuse.
// leader is the scheduler's leader, nil if unknown.
func Build(objects *snapshot.Snapshot, jobs []inventory.Job, leader *snapshot.Leader, now time.Time) Queue {
	byKey, independent := map[key]*Entry{}, independentJobs(objects.Jobs)
	for i := range objects.Pods {
		pod := &objects.Pods[i]
		request, ok := pendingRequest(pod)
		if !ok {
			continue
		}
		id := podJobKey(pod)
		if byKey[id] == nil {
			byKey[id] = newEntry(pod, id)
			_, named := gang.NamedGroup(pod)
			byKey[id].demand.together = named || gang.MayBeMember(pod) && !independent[controllerUID(pod)]
		}
		byKey[id].addPod(pod, request)
	}
	entries := make([]Entry, 0, len(byKey))
	for _, entry := range byKey {
		entries = append(entries, *entry)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), compareEntries(a, b)) })
	for i := range entries {
		entries[i].Position = 1
		if i > 0 && entries[i-1].Pool == entries[i].Pool {
			before := &entries[i-1]
			entries[i].Position = before.Position + 1
			entries[i].JobsAhead = before.JobsAhead + 1
			entries[i].GPUsAhead = before.GPUsAhead + before.GPUs
		}
	}
	underQuotas(entries, objects)
	pools := estimateStarts(entries, objects, now)
	blockUnheard(entries, objects, leader, now)
	if leader != nil && !leader.PlacesJobs() {
		blockAll(entries)
	}
	for _, entry := range heldEntries(jobs, now) {
		if byKey[key{namespace: entry.Namespace, kind: entry.Kind, name: entry.Name}] == nil { // else some of its pods are in the queue
			entries = append(entries, entry)
		}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Pool, b.Pool) })
	return Queue{Entries: entries, pools: pools}
}

// independentJobs are the Jobs whose pods start one by one, though their pods look like members of a gang.
func independentJobs(jobs []batchv1.Job) map[types.UID]bool {
	out := map[types.UID]bool{}
	for i := range jobs {
		if !gang.JobStartsTogether(&jobs[i]) {
			out[jobs[i].UID] = true
		}
	}
	return out
}

// blockAll marks all entries as blocked because no scheduler runs.
func blockAll(entries []Entry) {
	for i := range entries {
		if !entries[i].Never {
			down := diagnosis.Finding{
				Cause: reason.SchedulerDown, Message: phrase.Textf("no %s is running, so nothing starts: tell the administrators", names.SchedulerName),
			}
			entries[i].setBlocked(down.WithText())
		}
	}
}

// blockUnheard marks as blocked the entries whose pods name a profile that no scheduler seems to serve.
func blockUnheard(entries []Entry, objects *snapshot.Snapshot, leader *snapshot.Leader, now time.Time) {
	attention, named := reason.AttentionTo(objects.Pods), map[key]string{}
	for i := range objects.Pods {
		if pod := &objects.Pods[i]; attention.IsUnheard(pod, leader.LeadsSince(), now) {
			named[podJobKey(pod)] = pod.Spec.SchedulerName
		}
	}
	for i := range entries {
		e := &entries[i]
		if name := named[key{namespace: e.Namespace, kind: e.Kind, name: e.Name, replica: e.Replica}]; name != "" && !e.Never {
			e.setBlocked(diagnosis.UnheardProfile(name, leader).WithText())
		}
	}
}

// compareEntries is the order of the scheduler: by priority, then by waiting time, then by name.
func compareEntries(a, b Entry) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Since.Compare(b.Since),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Replica, b.Replica))
}

// pendingRequest reports whether our scheduler still has to place a pod, and the pod's GPU request. Gated pods and pods with a malformed request are in no
// queue: the scheduler does not try them.
func pendingRequest(pod *corev1.Pod) (gpu.Request, bool) {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending ||
		!names.IsOurScheduler(pod.Spec.SchedulerName) || len(pod.Spec.SchedulingGates) > 0 {
		return gpu.Request{}, false
	}
	request, err := gpu.RequestOf(pod)
	return request, err == nil && (request.Whole+request.Shared > 0 || request.MIG > 0)
}

func newEntry(pod *corev1.Pod, id key) *Entry {
	entry := &Entry{
		Namespace: id.namespace, Name: id.name, Kind: id.kind, Replica: id.replica, Priority: schedulinghelper.PodPriority(pod),
		Pool: gpu.PodPool(pod), PriorityClass: pod.Spec.PriorityClassName, Since: pod.CreationTimestamp.Time,
		MIG: inventory.ProfilesOf(pod),
	}
	if types, err := gpu.PodTypes(pod); err == nil {
		entry.GPUTypes = types.AcceptedNames()
	}
	return entry
}

func (e *Entry) addPod(pod *corev1.Pod, request gpu.Request) {
	e.Pods++
	e.GPUs = amounts.Add(e.GPUs, amounts.Add(request.Whole, request.Shared))
	if created := pod.CreationTimestamp.Time; created.Before(e.Since) {
		e.Since = created
	}
	e.demand.owner = controllerUID(pod)
	wanted, err := fit.RequestOf(pod)
	if err != nil {
		e.Never = true
		e.setBlocked(diagnosis.Finding{Cause: reason.MalformedRequest, Message: phrase.Textf("the request of pod %s cannot be read: %s", pod.Name, err)}.WithText())
		return
	}
	e.demand.requests = append(e.demand.requests, wanted)
	if e.Never {
		return // the problem of another pod is more informative
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && len(condition.Message) > len(e.Message) {
			e.MessageText = nil
			e.Reason, e.Message = string(reason.CauseOfUnplaced(pod)), inventory.ShortenVerdict(condition.Message)
			e.demand.confined = len(reason.FindIn(condition.Message, confining)) > 0
			e.demand.promisedStart = parsePromisedStart(condition.Message)
			if beyond, ok := diagnosis.FindingBeyondNodes(condition.Message); ok {
				e.demand.beyondNodes = &beyond
			} else {
				e.demand.beyondNodes = nil
			}
		}
	}
}

// confining are the reasons of gangs that wait for domains with room.
var confining = []*reason.Reason{reason.GangDomainFull, reason.GangHoldsOut, reason.GangSegmentsFull, reason.GangSegmentsHoldOut}

// classes maps gpuctl's names of priorities to priority classes.
var classes = map[string]string{"high": names.PriorityClassHigh, "medium": names.PriorityClassMedium, "low": names.PriorityClassLow}

// PriorityName is gpuctl's name of a priority class, "" for a class that is not one of ours.
func PriorityName(class string) string {
	for name, ours := range classes {
		if ours == class {
			return name
		}
	}
	return ""
}
