// Package feed sends job changes to many watchers, each from its own position. It keeps the last changes, so that a watcher whose connection broke
// resumes without a gap. A watcher that was away for too long must start over.
package feed

import (
	"crypto/rand"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

// Type is the type of a change.
type Type string

// The types of changes.
const (
	Added    Type = "added"
	Modified Type = "modified"
	Deleted  Type = "deleted"
)

// Change is one change of one job.
type Change struct {
	// Seq counts changes from 1.
	Seq  uint64
	Type Type
	// Job is the job after the change, or before its deletion. It has only one pod, with only its address.
	Job *inventory.Job
}

const (
	// maxChanges bounds the stored changes, and maxChangeBytes their approximate memory: minutes of a busy cluster.
	maxChanges     = 8192
	maxChangeBytes = 16 << 20
	// maxPerRead bounds the changes returned at once, so that a slow reader holds no more.
	maxPerRead = 256
)

// Feed holds the state of all jobs and the last changes. It is safe for concurrent use.
type Feed struct {
	// epoch distinguishes the changes of this process from those of other processes, whose numbers are meaningless here.
	epoch string

	mu      sync.Mutex
	jobs    map[key]*inventory.Job
	changes []Change // the newest last
	bytes   int      // of the changes
	seq     uint64
	renewed chan struct{}
}

type key struct{ namespace, kind, name string }

// New returns a feed that knows no jobs.
func New() *Feed {
	return &Feed{epoch: rand.Text(), jobs: map[key]*inventory.Job{}, renewed: make(chan struct{})}
}

// Publish sets the state of all jobs. Differences from the previous state become changes.
func (f *Feed) Publish(jobs []inventory.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.seq
	now := make(map[key]*inventory.Job, len(jobs))
	for i := range jobs {
		job := trimJob(&jobs[i])
		k := key{job.Namespace, job.Kind, job.Name}
		switch old, known := f.jobs[k]; {
		case !known:
			f.addChange(Added, job)
		case reflect.DeepEqual(old, job):
			job = old // keep one copy
		default:
			f.addChange(Modified, job)
		}
		now[k] = job
	}
	for k, job := range f.jobs {
		if _, there := now[k]; !there {
			f.addChange(Deleted, job)
		}
	}
	f.jobs = now
	if f.seq != before {
		close(f.renewed)
		f.renewed = make(chan struct{})
	}
}

// trimJob returns a job without the fields that lists do not show: otherwise each change would keep hundreds of pods.
func trimJob(job *inventory.Job) *inventory.Job {
	out := *job
	out.Pods = nil
	if i := slices.IndexFunc(job.Pods, func(pod inventory.Pod) bool { return pod.IP != "" }); i >= 0 {
		out.Pods = []inventory.Pod{{IP: job.Pods[i].IP}}
	}
	return &out
}

// sizeOf estimates the memory of an outline.
func sizeOf(job *inventory.Job) int {
	size := int(unsafe.Sizeof(*job)) + len(job.Pods)*int(unsafe.Sizeof(inventory.Pod{})) + len(job.Message) + len(job.Reason)
	for _, texts := range [][]string{job.Nodes, job.GPUTypes, {job.Name, job.Namespace, job.User, job.Pool, job.Object.Name}} {
		for _, text := range texts {
			size += int(unsafe.Sizeof(text)) + len(text)
		}
	}
	return size
}

func (f *Feed) addChange(what Type, job *inventory.Job) {
	f.seq++
	f.changes = append(f.changes, Change{Seq: f.seq, Type: what, Job: job})
	f.bytes += sizeOf(job)
	if len(f.changes) <= 2*maxChanges && f.bytes <= 2*maxChangeBytes {
		return
	}
	first := max(0, len(f.changes)-maxChanges)
	for i := range f.changes {
		if i >= first && f.bytes <= maxChangeBytes {
			break
		}
		f.bytes -= sizeOf(f.changes[i].Job)
		first = max(first, i+1)
	}
	f.changes = slices.Clone(f.changes[first:])
}

// CurrentJobs returns all jobs and the number of the last change that they include. They must not be changed.
func (f *Feed) CurrentJobs() ([]*inventory.Job, uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	jobs := make([]*inventory.Job, 0, len(f.jobs))
	for _, job := range f.jobs {
		jobs = append(jobs, job)
	}
	return jobs, f.seq
}

// ChangesSince returns the first changes after a number. ok is false if some of them are no longer stored. renewed is closed when there are more.
func (f *Feed) ChangesSince(seq uint64) (changes []Change, renewed <-chan struct{}, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	missed := f.seq - seq
	if seq > f.seq || missed > uint64(len(f.changes)) {
		return nil, nil, false
	}
	after := f.changes[uint64(len(f.changes))-missed:]
	if len(after) > maxPerRead {
		return slices.Clone(after[:maxPerRead]), alreadyRenewed, true
	}
	return slices.Clone(after), f.renewed, true
}

// alreadyRenewed is a closed channel: more changes are available.
var alreadyRenewed = func() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}()

// ID returns the ID of a change, which a watcher presents to resume from there.
func (f *Feed) ID(seq uint64) string { return f.epoch + "-" + strconv.FormatUint(seq, 10) }

// LatestID returns the ID of the last change.
func (f *Feed) LatestID() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ID(f.seq)
}

// ParseID decodes an ID. ok is false for IDs of another process, which are meaningless here.
func (f *Feed) ParseID(id string) (seq uint64, ok bool) {
	digits, ours := strings.CutPrefix(id, f.epoch+"-")
	if !ours {
		return 0, false
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, err == nil
}
