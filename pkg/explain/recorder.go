package explain

import (
	"cmp"
	"container/list"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/gang"
)

// Limits bound the content of a recorder. The least recently used record is evicted first.
type Limits struct {
	// Pods is the number of pods.
	Pods int
	// Bytes is the memory of all records, estimated by their texts.
	Bytes int
}

// DefaultLimits suffice for every waiting pod of a large cluster in some megabytes.
var DefaultLimits = Limits{Pods: 10_000, Bytes: 32 << 20}

// Recorder keeps a record of each recently attempted pod. It is safe for concurrent use. A nil Recorder records nothing and knows no pod, at no cost.
type Recorder struct {
	limits Limits

	mu    sync.Mutex
	byUID map[types.UID]*list.Element
	// byName finds the current pod of a name; its predecessors are found only by UID.
	byName map[types.NamespacedName]types.UID
	recent *list.List // of *entry, the most recently written first
	bytes  int
}

type entry struct {
	record Record
	size   int
}

func (e *entry) podName() types.NamespacedName {
	return types.NamespacedName{Namespace: e.record.Namespace, Name: e.record.Name}
}

// NewRecorder returns an empty recorder.
func NewRecorder(limits Limits) *Recorder {
	return &Recorder{
		limits: limits,
		byUID:  map[types.UID]*list.Element{},
		byName: map[types.NamespacedName]types.UID{},
		recent: list.New(),
	}
}

// Record stores an attempt to place a pod; it replaces the previous one. The recorder takes ownership of the attempt's lists, which must be sorted.
// They are truncated to the limits of this package.
func (r *Recorder) Record(pod *corev1.Pod, attempt Attempt) {
	if r == nil {
		return
	}
	attempt.truncateLists()
	r.mu.Lock()
	defer r.mu.Unlock()
	record := r.recordAttempt(pod, attempt)
	record.Explained = record.Attempts
}

// CountAttempt stores an attempt without an explanation. It becomes the last attempt only if there is no explained attempt with the same result.
func (r *Recorder) CountAttempt(pod *corev1.Pod, attempt Attempt) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	element, ok := r.byUID[pod.UID]
	if ok {
		if record := &element.Value.(*entry).record; record.Explained > 0 && record.Last.Result == attempt.Result {
			record.Attempts++
			r.recent.MoveToFront(element)
			return
		}
	}
	r.recordAttempt(pod, attempt).Explained = 0
}

// recordAttempt counts an attempt and makes it the last one. The caller sets Explained.
func (r *Recorder) recordAttempt(pod *corev1.Pod, attempt Attempt) *Record {
	size := attempt.estimateSize() + len(pod.Namespace) + len(pod.Name) + len(pod.UID)
	element, ok := r.byUID[pod.UID]
	if !ok {
		element = r.recent.PushFront(&entry{record: Record{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Job: gang.WorkloadOf(pod).JobName(), First: attempt.Time,
		}})
		r.byUID[pod.UID] = element
	}
	e := element.Value.(*entry)
	e.record.Attempts++
	e.record.Last = attempt
	r.bytes += size - e.size
	e.size = size
	r.byName[e.podName()] = pod.UID
	r.recent.MoveToFront(element)
	r.evictOldest() // never evicts the front
	return &e.record
}

// evictOldest drops the least recently written records until the limits hold. The newest record stays whatever its size.
func (r *Recorder) evictOldest() {
	for r.recent.Len() > 1 && (r.recent.Len() > r.limits.Pods || r.bytes > r.limits.Bytes) {
		r.dropElement(r.recent.Back())
	}
}

func (r *Recorder) dropElement(element *list.Element) {
	e := r.recent.Remove(element).(*entry)
	r.bytes -= e.size
	delete(r.byUID, e.record.UID)
	if r.byName[e.podName()] == e.record.UID {
		delete(r.byName, e.podName())
	}
}

// Forget drops the record of a pod that is gone.
func (r *Recorder) Forget(uid types.UID) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if element, ok := r.byUID[uid]; ok {
		r.dropElement(element)
	}
}

// Pod returns the record of the current pod of a name.
func (r *Recorder) Pod(namespace, name string) (Record, bool) {
	if r == nil {
		return Record{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	element, ok := r.byUID[r.byName[types.NamespacedName{Namespace: namespace, Name: name}]]
	if !ok {
		return Record{}, false
	}
	return element.Value.(*entry).record, true
}

// Pods returns the records of a namespace, sorted by name: those of one job, or of all pods if job is "".
func (r *Recorder) Pods(namespace, job string) []Record {
	if r == nil {
		return nil
	}
	var out []Record
	r.mu.Lock()
	for _, element := range r.byUID {
		record := &element.Value.(*entry).record
		if record.Namespace == namespace && (job == "" || record.Job == job) {
			out = append(out, *record)
		}
	}
	r.mu.Unlock()
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}

// Len returns the number of pods with a record, and their estimated memory in bytes.
func (r *Recorder) Len() (pods, bytes int) {
	if r == nil {
		return 0, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recent.Len(), r.bytes
}
