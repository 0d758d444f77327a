// Package survival estimates the run times of jobs from those that have ended, and the remaining run time of a job that has run for some time:
// the conditional survival of statistics. A job that has run for ten hours is not like those that ended after one, so only jobs that have run
// for as long count.
//
// Jobs are similar if they are of the same user and about the same size, else of the same user, else of the same pool and size, else of the same
// pool, else any: the narrowest of these with enough records is used. The reason for the end of a job does not matter, as its GPUs are free in
// any case.
//
// It is pure, and its memory is bounded whatever users do: names and sizes are theirs to choose. No owner has more than a part of the records of
// all jobs, so that a user who runs very many does not dominate the others.
package survival

import (
	"math/bits"
	"slices"
	"time"
)

// Job is what is known of a job before it has run.
type Job struct {
	// Namespace and User are its owner. Equal user names in two namespaces are different users: within their own namespace, people may claim any
	// name.
	Namespace, User string
	Pool            string
	// GPUs is the total of all its pods.
	GPUs int64
}

const (
	// minRecords is how many sufficiently long records a class must have: with fewer, a statement about one in twenty is based on no record.
	minRecords = 20
	// maxRecords is the maximum number of records of a class, the newest ones, and maxOwnerRecords how many of them one owner may have if there
	// are others.
	maxRecords      = 2000
	maxOwnerRecords = maxRecords / 4
	// maxClasses is the maximum number of classes. The class without a new record for the longest time is dropped.
	maxClasses = 500
)

// class is a set of similar jobs. The owner is "" in the classes of all jobs.
type class struct {
	owner owner
	pool  string
	size  int
}

type owner struct{ namespace, user string }

// anySize stands for all sizes, and anyPool for all pools: "" is the pool of jobs that name none.
const (
	anySize = -1
	anyPool = "*"
)

// ownClasses is how many of the classes of a job, the first ones, only have its owner's jobs.
const ownClasses = 2

// classesOf are the classes of a job, the narrowest first.
func classesOf(job Job) [5]class {
	size := bits.Len64(uint64(max(job.GPUs, 1) - 1)) // 1, 2, 3 to 4, 5 to 8, …
	its := owner{job.Namespace, job.User}
	return [5]class{
		{its, anyPool, size}, {its, anyPool, anySize}, {owner{}, job.Pool, size}, {owner{}, job.Pool, anySize}, {owner{}, anyPool, anySize},
	}
}

// History is the recorded run times. The zero value and nil are empty.
type History struct {
	classes map[class]*records
	runs    int64
}

// records are those of a class.
type records struct {
	// all has the newest record last, and counts the number of records by owner.
	all    []record
	counts map[owner]int
	// sorted are their run times, in order; nil until first used. The slice is never changed, because distributions share it.
	sorted []time.Duration
	// at is when the last record was added, as a count.
	at int64
}

type record struct {
	owner owner
	ran   time.Duration
}

// AddRun adds a job that has ended, with its run time.
func (h *History) AddRun(job Job, ran time.Duration) {
	if h.classes == nil {
		h.classes = map[class]*records{}
	}
	h.runs++
	for _, of := range classesOf(job) {
		if h.classes[of] == nil {
			h.evictOldestClass()
			h.classes[of] = &records{counts: map[owner]int{}}
		}
		h.classes[of].at = h.runs
		h.classes[of].addRecord(record{owner{job.Namespace, job.User}, max(ran, 0)})
	}
}

// evictOldestClass drops a class if their number has reached the limit.
func (h *History) evictOldestClass() {
	if len(h.classes) < maxClasses {
		return
	}
	var oldest class
	at := h.runs + 1
	for of, its := range h.classes {
		// Those of one job have learnt at the same time: which of them goes must not depend on the order of a map.
		if its.at < at || its.at == at && of.sortsBefore(oldest) {
			oldest, at = of, its.at
		}
	}
	delete(h.classes, oldest)
}

func (r *records) addRecord(next record) {
	var gone *record
	if len(r.all) == maxRecords {
		at := r.indexToEvict(next.owner)
		gone = &record{r.all[at].owner, r.all[at].ran}
		if r.counts[gone.owner] > 1 {
			r.counts[gone.owner]--
		} else {
			delete(r.counts, gone.owner)
		}
		if at == 0 {
			r.all = r.all[1:] // moving all others would be most of the cost
		} else {
			r.all = slices.Delete(r.all, at, at+1)
		}
	}
	r.all = append(r.all, next)
	r.counts[next.owner]++
	r.updateSorted(gone, next.ran)
}

// updateSorted inserts a run time into the sorted ones, in place of that of a removed record, if there is one.
func (r *records) updateSorted(gone *record, ran time.Duration) {
	if r.sorted == nil {
		return
	}
	before := r.sorted
	r.sorted = make([]time.Duration, 0, len(before)+1)
	if gone != nil {
		at, _ := slices.BinarySearch(before, gone.ran)
		r.sorted = append(append(r.sorted, before[:at]...), before[at+1:]...)
	} else {
		r.sorted = append(r.sorted, before...)
	}
	at, _ := slices.BinarySearch(r.sorted, ran)
	r.sorted = slices.Insert(r.sorted, at, ran)
}

// indexToEvict returns the record that makes room for one of an owner: their own oldest once they have their share, else the oldest.
func (r *records) indexToEvict(to owner) int {
	if r.counts[to] < maxOwnerRecords {
		return 0
	}
	return slices.IndexFunc(r.all, func(its record) bool { return its.owner == to })
}

// sortedRunTimes are the run times, sorted.
func (r *records) sortedRunTimes() []time.Duration {
	if r.sorted == nil {
		r.sorted = make([]time.Duration, len(r.all))
		for i := range r.all {
			r.sorted[i] = r.all[i].ran
		}
		slices.Sort(r.sorted)
	}
	return r.sorted
}

// PrepareReads prepares concurrent reads, until more is recorded.
func (h *History) PrepareReads() {
	for _, its := range h.classes {
		its.sortedRunTimes()
	}
}

// RemainingTime returns how much longer a job runs that has run for some time. limit is its maximum total run time, 0 for none. If too few records
// exist, only the limit counts, and without one the distribution is unknown.
func (h *History) RemainingTime(job Job, elapsed, limit time.Duration) Distribution {
	classes := classesOf(job)
	return h.remainingIn(classes[:], elapsed, limit)
}

// RemainingByOwner is RemainingTime based on the owner's jobs alone: no one else can influence it.
func (h *History) RemainingByOwner(job Job, elapsed, limit time.Duration) Distribution {
	classes := classesOf(job)
	return h.remainingIn(classes[:ownClasses], elapsed, limit)
}

func (h *History) remainingIn(classes []class, elapsed, limit time.Duration) Distribution {
	out := Distribution{elapsed: max(elapsed, 0), limit: max(limit, 0)}
	if h == nil {
		return out
	}
	for _, of := range classes {
		its := h.classes[of]
		if its == nil || len(its.all) < minRecords {
			continue
		}
		ran := its.sortedRunTimes()
		from, _ := slices.BinarySearch(ran, out.elapsed)
		if len(ran)-from >= minRecords {
			out.ran = ran[from:]
			break
		}
	}
	return out
}
